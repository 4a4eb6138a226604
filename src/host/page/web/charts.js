// Charts as SVG, each with a name, a legend and a table that has the same numbers.
//
//     const c = chart($('place'), { title: 'Perplexity', kind: 'line', series: [{ name, of }], format });
//     c.draw(rounds);        // again whenever there are more rounds
//
// kind 'line' joins the values; 'stack' piles them up, one bar per round. `of(round)` returns a number, or
// undefined where the round has none; a series without any number is left out. `c` chooses a series' colour (page.css),
// so that it stays the same when another series appears.
import { h, s, known, number, count, plural } from './format.js';

const HEIGHT = 230,
    TOP = 14,
    BOTTOM = 26,
    BARS = 60,
    ROWS = 500;

function niceStep(range, parts) {
    const raw = range / parts,
        power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].find((f) => f * power >= raw * 0.999);
    return step * power;
}

function linearScale(low, high) {
    if (high <= low) high = low + (low === 0 ? 1 : Math.abs(low) * 0.1);
    const step = niceStep(high - low, 4);
    const from = Math.floor(low / step) * step,
        to = Math.ceil(high / step - 1e-9) * step,
        ticks = [];
    for (let i = 0; from + i * step <= to + step / 2; i++)
        ticks.push(Number((from + i * step).toPrecision(12)));
    return { at: (y) => (y - from) / (to - from), ticks };
}

function logScale(low, high) {
    const from = Math.log10(low) - 0.03,
        to = Math.log10(high) + 0.03,
        ticks = [];
    const steps = to - from > 2.2 ? [1] : to - from > 0.9 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
    const every = Math.ceil((to - from) / 6); // decades
    for (let p = Math.floor(from / every) * every; p <= to; p += every)
        for (const m of steps) {
            const y = m * 10 ** p;
            if (Math.log10(y) >= from && Math.log10(y) <= to) ticks.push(y);
        }
    return { at: (y) => (Math.log10(y) - from) / (to - from), ticks };
}

function roundTicks(first, last, width) {
    const step = Math.max(1, niceStep(Math.max(1, last - first), Math.max(2, width / 80)));
    const whole = Math.max(1, Math.round(step)),
        ticks = [];
    for (let x = Math.ceil(first / whole) * whole; x <= last; x += whole) ticks.push(x);
    return ticks;
}

export function chart(place, options) {
    const { title, kind, format = number } = options;
    const readout = h('span', { class: 'readout' });
    const legend = h('ul', { class: 'legend' });
    const box = h('div');
    const body = h('div', {
        class: 'scroll',
        tabindex: '0',
        role: 'region',
        'aria-label': `${title}, as a table`,
    });
    const details = h(
        'details',
        { class: 'as-table', ontoggle: () => table() },
        h('summary', {}, 'Show as a table', h('span', { class: 'hidden' }, `: ${title}`)),
        body,
    );
    place.replaceChildren(
        h('figure', {}, h('figcaption', {}, h('span', {}, title), readout), legend, box),
        details,
    );
    let rounds = [],
        series = [],
        frame = 0,
        width = 0;

    function table() {
        if (!details.open) {
            body.replaceChildren();
            return;
        }
        const rows = rounds.slice(-ROWS).reverse(),
            results = !rows[0]?.runs; // not a round of several runs
        body.replaceChildren(
            h(
                'table',
                { class: 'plain' },
                h(
                    'thead',
                    {},
                    h(
                        'tr',
                        {},
                        h('th', { scope: 'col' }, 'Round'),
                        series.map((x) => h('th', { scope: 'col' }, x.name)),
                        results && h('th', { scope: 'col' }, 'Result'),
                    ),
                ),
                h(
                    'tbody',
                    {},
                    rows.map((r) =>
                        h(
                            'tr',
                            {},
                            h('th', { scope: 'row' }, String(r.round)),
                            series.map((x) => {
                                const y = x.of(r);
                                return h('td', {}, known(y) ? format(y) : '–');
                            }),
                            results && h('td', {}, r.skipped ? 'skipped' : r.blocked ? 'blocked' : 'released'),
                        ),
                    ),
                ),
            ),
        );
    }

    function summary(shown) {
        const last = shown[shown.length - 1];
        if (!last) return `${title}: no round yet`;
        const words = series.map((x) => [x.name, x.of(last)]).filter(([, y]) => known(y));
        const skipped = shown.filter((r) => r.skipped).length,
            blocked = shown.filter((r) => r.blocked).length;
        return (
            `${title}, rounds ${shown[0].round} to ${last.round}. Round ${last.round}: ` +
            (words.map(([name, y]) => `${name} ${format(y)}`).join(', ') || 'no value') +
            (skipped ? `; ${plural(skipped, 'round')} skipped` : '') +
            (blocked ? `; ${plural(blocked, 'round')} blocked` : '') +
            '. The table below has every value.'
        );
    }

    function read(r) {
        if (!r) {
            readout.textContent = options.note ? options.note(rounds) : '';
            return;
        }
        const words = series
            .map((x) => [x.name, x.of(r)])
            .filter(([, y]) => known(y) && (kind === 'line' || y > 0));
        readout.textContent =
            `Round ${r.round}: ` +
            (r.skipped ? 'skipped' : r.blocked ? 'blocked' : '') +
            (words.length && (r.skipped || r.blocked) ? ', ' : '') +
            words.map(([name, y]) => (series.length === 1 ? format(y) : `${name} ${format(y)}`)).join(', ');
    }

    function symbol(i, line) {
        return s(
            'svg',
            { viewBox: '0 0 14 14', 'aria-hidden': 'true' },
            line
                ? s('line', {
                      x1: 0,
                      y1: 7,
                      x2: 14,
                      y2: 7,
                      class: `line s${series[i].c}${series[i].dashed ? ' dashed' : ''}`,
                  })
                : s('rect', { x: 1, y: 1, width: 12, height: 12, rx: 3, class: `fill s${series[i].c}` }),
        );
    }
    const markShape = (kindOf, x, y, z) =>
        kindOf === 'skipped'
            ? s('path', { class: 'skipped', d: `M${x - z} ${y - 2 * z}h${2 * z}l${-z} ${2 * z}z` })
            : s('path', { class: 'blocked', d: `M${x} ${y - 2 * z}l${z} ${z} ${-z} ${z} ${-z} ${-z}z` });
    const marked = (shown) => (options.marks ? shown.filter((r) => r.skipped || r.blocked) : []);

    function drawLegend(shown) {
        const items =
            series.length > 1 || kind === 'stack'
                ? series.map((x, i) => h('li', {}, symbol(i, kind === 'line'), x.name))
                : [];
        for (const kindOf of ['skipped', 'blocked'])
            if (marked(shown).some((r) => r[kindOf]))
                items.push(
                    h(
                        'li',
                        {},
                        s(
                            'svg',
                            { viewBox: '0 0 14 14', 'aria-hidden': 'true' },
                            markShape(kindOf, 7, 12, 5),
                        ),
                        `${kindOf} round`,
                    ),
                );
        legend.replaceChildren(...items);
    }

    function lines(svg, shown, at) {
        series.forEach((x, i) => {
            let d = '',
                pen = 'M',
                end = null,
                n = 0;
            for (const r of shown) {
                const y = x.of(r);
                if (!known(y)) continue;
                d += `${pen}${at.x(r.round).toFixed(1)} ${at.y(y).toFixed(1)}`;
                pen = 'L';
                end = [r.round, y];
                n++;
            }
            svg.append(s('path', { class: `line s${x.c}${x.dashed ? ' dashed' : ''}`, d }));
            if (!x.dashed && n <= 40)
                for (const r of shown)
                    if (known(x.of(r)))
                        svg.append(
                            s('circle', {
                                class: `fill s${x.c}`,
                                cx: at.x(r.round),
                                cy: at.y(x.of(r)),
                                r: 3,
                            }),
                        );
            if (end && i === 0) {
                const right = at.x(end[0]) > width - 56;
                svg.append(
                    s(
                        'text',
                        {
                            class: 'end',
                            x: at.x(end[0]) + (right ? 0 : 8),
                            y: at.y(end[1]) + (right ? -9 : 4),
                            'text-anchor': right ? 'end' : 'start',
                        },
                        format(end[1]),
                    ),
                );
            }
        });
    }

    function bars(svg, shown, at, room) {
        const wide = Math.max(2, Math.min(34, room * 0.78));
        for (const r of shown) {
            let base = 0;
            series.forEach((x) => {
                const y = x.of(r);
                if (!known(y) || y <= 0) return;
                const from = at.y(base),
                    to = at.y(base + y);
                svg.append(
                    s('rect', {
                        class: `fill s${x.c}`,
                        x: at.x(r.round) - wide / 2,
                        y: to,
                        width: wide,
                        height: Math.max(0.6, from - to - (from - to > 3 ? 1 : 0)),
                    }),
                );
                base += y;
            });
        }
    }

    function draw() {
        frame = 0;
        width = Math.floor(box.clientWidth);
        series = options.series.filter((x) =>
            rounds.some((r) => known(x.of(r)) && (kind === 'line' || x.of(r) > 0)),
        );
        if (!series.length || width < 100) {
            box.replaceChildren();
            legend.replaceChildren();
            table();
            return;
        }
        const shown = kind === 'stack' ? rounds.slice(-BARS) : rounds;
        const values =
            kind === 'stack'
                ? shown.map((r) => series.reduce((t, x) => t + (known(x.of(r)) ? x.of(r) : 0), 0))
                : shown.flatMap((r) => series.map((x) => x.of(r)).filter(known));
        let low = Infinity,
            high = -Infinity; // not Math.min(...values): a long run has too many for a call
        for (const y of values) {
            low = Math.min(low, y);
            high = Math.max(high, y);
        }
        const log = options.log && low > 0 && high / low > 4;
        const scale = log
            ? logScale(low, high)
            : linearScale(kind === 'stack' ? 0 : Math.min(low, options.zero ? 0 : low), high);
        if (format === count) scale.ticks = scale.ticks.filter(Number.isInteger);
        let digits; // as many as tell the ticks apart
        const label = (y) => (y === 0 ? '0' : format(y, digits).replace(/\.0+(?=\D|$)/, ''));
        for (const more of [2, 3, 4]) {
            if (new Set(scale.ticks.map(label)).size === scale.ticks.length) break;
            digits = more;
        }
        const margin = 12 + 6.6 * Math.max(...scale.ticks.map((y) => label(y).length));
        const first = shown[0].round,
            latest = shown[shown.length - 1].round;
        const total = options.total ? options.total() : 0;
        const last =
            kind === 'stack'
                ? Math.max(latest, first + 7)
                : Math.max(latest, first + 4, Math.min(total || 0, Math.ceil(latest * 1.3)));
        const room = (width - margin - 8) / (last - first + (kind === 'stack' ? 1 : 0));
        const at = {
            x: (r) => margin + (r - first + (kind === 'stack' ? 0.5 : 0)) * room,
            y: (y) => TOP + (1 - scale.at(y)) * (HEIGHT - TOP - BOTTOM),
        };
        const svg = s('svg', {
            role: 'img',
            'aria-label': summary(shown),
            viewBox: `0 0 ${width} ${HEIGHT}`,
            height: HEIGHT,
        });
        svg.append(
            s('line', {
                class: 'grid-line',
                x1: margin,
                x2: width - 4,
                y1: HEIGHT - BOTTOM,
                y2: HEIGHT - BOTTOM,
            }),
        );
        for (const y of scale.ticks)
            svg.append(
                s('line', { class: 'grid-line', x1: margin, x2: width - 4, y1: at.y(y), y2: at.y(y) }),
                s('text', { x: margin - 8, y: at.y(y) + 4, 'text-anchor': 'end' }, label(y)),
            );
        for (const x of roundTicks(first, last, width - margin))
            svg.append(s('text', { x: at.x(x), y: HEIGHT - 6, 'text-anchor': 'middle' }, String(x)));
        if (kind === 'stack') bars(svg, shown, at, room);
        else lines(svg, shown, at);
        const marks = marked(shown);
        for (const r of marks)
            svg.append(
                markShape(
                    r.skipped ? 'skipped' : 'blocked',
                    at.x(r.round),
                    HEIGHT - BOTTOM,
                    marks.length > 30 ? 2.5 : 5,
                ),
            );
        const cursor = s('line', { class: 'cursor', y1: TOP, y2: HEIGHT - BOTTOM, visibility: 'hidden' });
        svg.append(cursor);
        svg.addEventListener('pointermove', (e) => {
            const x = e.clientX - svg.getBoundingClientRect().left;
            const near = shown.reduce((a, r) =>
                Math.abs(at.x(r.round) - x) < Math.abs(at.x(a.round) - x) ? r : a,
            );
            cursor.setAttribute('x1', at.x(near.round));
            cursor.setAttribute('x2', at.x(near.round));
            cursor.setAttribute('visibility', 'visible');
            read(near);
        });
        svg.addEventListener('pointerleave', () => {
            cursor.setAttribute('visibility', 'hidden');
            read(null);
        });
        box.replaceChildren(svg);
        drawLegend(shown);
        read(null);
        table();
    }

    const later = () => {
        if (!frame) frame = requestAnimationFrame(draw);
    };
    new ResizeObserver(() => {
        if (Math.floor(box.clientWidth) !== width) later();
    }).observe(box);
    return {
        draw(all) {
            rounds = all;
            later();
        },
        empty: (all) =>
            !options.series.some((x) => all.some((r) => known(x.of(r)) && (kind === 'line' || x.of(r) > 0))),
    };
}
