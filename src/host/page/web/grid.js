// The grid of clients by rounds. It shows one window (grid.json serves 100 rounds x 200 clients at most) and follows
// the newest round until the reader goes back. Arrow keys move from cell to cell.
import { h, count, compact, plural, known } from './format.js';

export const KINDS = {
    a: { name: 'arrived', glyph: '•', words: 'arrived and counted' },
    l: { name: 'late', glyph: 'L', words: 'late: the update came after the round had closed' },
    d: { name: 'dropped', glyph: 'D', words: 'dropped: it fetched the model and sent nothing in time' },
    r: { name: 'refused', glyph: 'R', words: 'refused' },
    x: { name: 'counted out', glyph: 'X', words: "counted out by CSP's verdict" },
    o: { name: 'not seen', glyph: '·', words: 'not seen: it did not fetch the model' },
    u: { name: 'not known any more', glyph: '', words: 'not known any more: the retention period is over' },
};
export const kindOf = (letter) => (letter === '.' ? 'o' : letter === ' ' || !KINDS[letter] ? 'u' : letter);
const CELL = 23,
    CLIENTS = 40;

// `lost` counts the clients that are missing from a round, from its counts.
export function grid(place, ask, lost) {
    let newest = 0,
        first = 0,
        from = 0,
        sort = 'worst',
        follow = true,
        data = null,
        asked = 0,
        focus = null;

    const about = h('p', { class: 'about soft' });
    const matrix = h('div', { class: 'matrix' });
    const why = h('div', { class: 'why' });
    const pick = h(
        'select',
        {
            id: 'grid-sort',
            onchange: () => {
                sort = pick.value;
                from = 0;
                load();
            },
        },
        h('option', { value: 'worst' }, 'most often missing first'),
        h('option', { value: 'name' }, 'by name'),
    );
    const button = (text, label, act) =>
        h('button', { type: 'button', 'aria-label': label, onclick: act }, text);
    const back = button('‹', 'Earlier clients in the list', () => {
        from = Math.max(0, from - CLIENTS);
        load();
    });
    const on = button('›', 'Later clients in the list', () => {
        from += CLIENTS;
        load();
    });
    const older = button('‹', 'Older rounds', () => {
        move(-span());
    });
    const newer = button('›', 'Newer rounds', () => {
        move(span());
    });
    const legend = h('ul', { class: 'legend', 'aria-label': 'Marks of the grid' });
    const which = h('span', {}),
        when = h('span', {});
    place.replaceChildren(
        h(
            'div',
            { class: 'tools' },
            h('span', {}, h('label', { for: 'grid-sort' }, 'Clients'), pick),
            h('span', {}, back, which, on),
            h('span', {}, older, when, newer),
        ),
        legend,
        matrix,
        about,
        why,
    );

    const span = () => {
        const names = Math.min(240, Math.max(112, window.innerWidth * 0.22)) + 30;
        return Math.max(6, Math.min(60, Math.floor((place.clientWidth - names) / CELL)));
    };
    function move(by) {
        first = Math.max(1, Math.min(first + by, Math.max(1, newest - span() + 1)));
        follow = first + span() > newest;
        load();
    }

    async function load() {
        if (!newest || place.clientWidth === 0) return;
        if (follow) first = Math.max(1, newest - span() + 1);
        const rounds = Math.min(span(), newest - first + 1); // the open round is nobody's fault yet
        const mine = ++asked;
        const order = sort === 'worst' ? '&sort=worst' : '';
        const query = `first=${first}&rounds=${rounds}&from=${from}&clients=${CLIENTS}${order}`;
        const got = await ask(`grid.json?${query}`);
        if (!got || mine !== asked) return;
        data = got;
        if (from > 0 && !data.clients.length) {
            from = 0;
            load();
            return;
        }
        draw();
    }

    const reason = (round, client) =>
        (data.why || []).find((w) => w.round === round && w.client === client)?.reason;
    function words(client, round, letter) {
        const given = reason(round, client),
            kind = KINDS[kindOf(letter)];
        return `${client}, round ${round}: ${given ? `${kind.name}: ${given}` : kind.words}`;
    }

    function draw() {
        const { rounds = [], clients = [], counts = [], enrolled } = data;
        const held = matrix.contains(document.activeElement) && focus;
        const scroll = matrix.scrollLeft;
        const of = new Map(counts.map((c) => [c.round, c]));
        const sum = (name, value) =>
            h(
                'tr',
                {},
                h('th', { scope: 'row' }, name),
                rounds.map((r) =>
                    h('td', {}, of.has(r) && known(value(of.get(r))) ? compact(value(of.get(r))) : '–'),
                ),
            );
        const table = h(
            'table',
            { role: 'grid', 'aria-label': 'Clients by rounds', 'aria-rowcount': enrolled ?? -1 },
            h(
                'thead',
                {},
                h(
                    'tr',
                    {},
                    h('th', { scope: 'col' }, 'Round'),
                    rounds.map((r) => h('th', { scope: 'col', class: 'n' }, String(r))),
                ),
                counts.length ? [sum('arrived', (c) => c.arrived), sum('missing', lost)] : [],
            ),
            h(
                'tbody',
                {},
                clients.map((c) =>
                    h(
                        'tr',
                        {},
                        h('th', { scope: 'row', title: c.name }, c.name),
                        rounds.map((r, i) => {
                            const letter = c.cells[i] ?? ' ',
                                text = words(c.name, r, letter);
                            return h(
                                'td',
                                {
                                    class: `cell cell-${kindOf(letter)}`,
                                    tabindex: '-1',
                                    'aria-label': text,
                                    title: text,
                                },
                                KINDS[kindOf(letter)].glyph,
                            );
                        }),
                    ),
                ),
            ),
        );
        table.addEventListener('keydown', keys);
        const tell = (e) => {
            if (e.target.matches('td.cell')) about.textContent = e.target.getAttribute('aria-label');
        };
        table.addEventListener('focusin', tell);
        table.addEventListener('pointerover', tell);
        matrix.replaceChildren(table);
        matrix.scrollLeft = scroll;
        const row = Math.min(focus ? focus.row : 0, clients.length - 1);
        const column = focus
            ? Math.max(0, Math.min(rounds.indexOf(focus.round), rounds.length - 1))
            : rounds.length - 1;
        const cell = table.tBodies[0].rows[row]?.cells[column + 1];
        if (cell) cell.tabIndex = 0;
        if (held && cell) cell.focus({ preventScroll: true });
        else about.textContent = 'Point at a mark, or move to it with the arrow keys, to read about it here.';
        const end = from + clients.length,
            never =
                clients.length < CLIENTS && end < enrolled
                    ? ` (${count(enrolled - end)} never took part)`
                    : '';
        which.textContent = clients.length
            ? `${count(from + 1)} to ${count(end)} of ${count(enrolled)}${never}`
            : 'none';
        when.textContent = rounds.length ? `Rounds ${rounds[0]} to ${rounds[rounds.length - 1]}` : 'no round';
        back.disabled = from === 0;
        on.disabled = clients.length < CLIENTS || end >= enrolled;
        older.disabled = first <= 1;
        newer.disabled = first + rounds.length > newest;
        const used = new Set(['a', 'd', 'l', 'r', ...clients.flatMap((c) => [...c.cells].map(kindOf))]);
        legend.replaceChildren(
            ...Object.entries(KINDS)
                .filter(([k]) => used.has(k))
                .map(([k, v]) =>
                    h(
                        'li',
                        {},
                        h('span', { class: `cell cell-${k}`, 'aria-hidden': 'true' }, v.glyph),
                        v.name,
                    ),
                ),
        );
        reasons();
    }

    function reasons() {
        const list = data.why || [],
            open = why.querySelector('details')?.open;
        why.replaceChildren(
            list.length === 0
                ? ''
                : h(
                      'details',
                      { open: open ?? list.length <= 6 },
                      h('summary', {}, `${plural(list.length, 'reason')} in these rounds`),
                      h(
                          'ul',
                          {},
                          [...list]
                              .sort((a, b) => b.round - a.round)
                              .slice(0, 100)
                              .map((w) => h('li', {}, `Round ${w.round}, ${w.client}: ${w.reason}`)),
                      ),
                  ),
        );
    }

    function keys(e) {
        const cell = e.target.closest('td.cell');
        if (!cell) return;
        const rows = [...cell.closest('tbody').rows],
            row = rows.indexOf(cell.parentNode),
            column = cell.cellIndex;
        const wide = cell.parentNode.cells.length - 1;
        const steps = {
            ArrowLeft: [0, -1],
            ArrowRight: [0, 1],
            ArrowUp: [-1, 0],
            ArrowDown: [1, 0],
            Home: [0, -wide],
            End: [0, wide],
            PageUp: [-10, 0],
            PageDown: [10, 0],
        };
        const step = steps[e.key];
        if (!step) return;
        e.preventDefault();
        const to =
            rows[Math.max(0, Math.min(rows.length - 1, row + step[0]))].cells[
                Math.max(1, Math.min(wide, column + step[1]))
            ];
        cell.tabIndex = -1;
        to.tabIndex = 0;
        focus = { row: rows.indexOf(to.parentNode), round: data.rounds[to.cellIndex - 1] };
        to.focus();
    }

    let width = 0,
        wait = 0;
    new ResizeObserver(() => {
        if (place.clientWidth === width) return;
        width = place.clientWidth;
        clearTimeout(wait);
        wait = setTimeout(load, 150);
    }).observe(place);
    return {
        // `round` is the newest one that the grid may show; the page calls this whenever it changes
        update(round) {
            if (round !== newest) {
                newest = round;
                load();
            }
        },
        // again with the same data: `lost` has changed
        redraw() {
            if (data) draw();
        },
        reset() {
            data = null;
            newest = 0;
            first = 0;
            from = 0;
            follow = true;
            focus = null;
        },
    };
}
