// The page of a run: it gets the state and the rounds from the server and shows them. docs/OPERATING.md describes it.
// A report has its data inside.
import {
    $,
    h,
    show,
    say,
    swap,
    known,
    epsilon,
    number,
    count,
    plural,
    bytes,
    seconds,
    clock,
    small,
} from './format.js';
import { chart } from './charts.js';
import { grid, kindOf, KINDS } from './grid.js';
import * as words from './words.js';
import { drawRuns, merge, qualityTile, sharedCharts, tookTile } from './report.js';

// ---- theme --------------------------------------------------------------------------------------
const store = {
    get() {
        try {
            return localStorage.getItem('theme') || '';
        } catch {
            return '';
        }
    },
    set(v) {
        try {
            localStorage.setItem('theme', v);
        } catch {
            /* private mode: the choice holds until the page closes */
        }
    },
};
function theme(choice) {
    if (choice === 'light' || choice === 'dark') document.documentElement.dataset.theme = choice;
    else delete document.documentElement.dataset.theme;
}
theme(store.get());
$('theme').value = document.documentElement.dataset.theme || '';
$('theme').addEventListener('change', (e) => {
    theme(e.target.value);
    store.set(e.target.value);
});

// ---- what the page knows ------------------------------------------------------------------------
const data = JSON.parse($('data')?.textContent ?? 'null'); // of a report
const about = data?.runs.length === 1 ? data.runs[0].about : undefined;
let state = null,
    rounds = [],
    facts = {},
    missing = [],
    skew = 0;
let goneSince = 0,
    stopped = '',
    locked = false,
    fetching = false,
    wrote = null;
const turnout = new Map(); // counts of late, dropped and refused clients by round
const now = () => Date.now() / 1000 + skew;

// In a federation, not a simulation: the seconds of a round without reveal and release.
function collecting(r) {
    if (known(r.train_seconds) || !known(r.seconds)) return undefined;
    return Math.max(0, r.seconds - (r.open_seconds || 0) - (r.release_seconds || 0));
}
const lost = (r, kind) =>
    words.missingFrom(r, turnout.get(r.round), facts.expected).find(([k]) => k === kind)?.[1];
const ownCharts = () => ({
    quality: chart($('chart-quality'), {
        title: 'Perplexity after each round',
        kind: 'line',
        log: true,
        marks: true,
        total: () => state?.task?.rounds,
        series: [
            { name: 'perplexity', c: 0, of: (r) => r.perplexity },
            { name: 'perplexity per word', c: 1, of: (r) => r.word_perplexity, dashed: true },
            { name: 'plain FedAvg (end)', c: 3, of: () => about?.plain, dashed: true },
            { name: 'best possible', c: 5, of: () => about?.best_possible, dashed: true },
            { name: 'before training', c: 4, of: () => about?.first, dashed: true },
        ],
        note: (all) => {
            const best = all.reduce(
                (a, r) => (known(r.perplexity) && !(a?.perplexity <= r.perplexity) ? r : a),
                null,
            );
            return best ? `best ${number(best.perplexity)} in round ${best.round}` : '';
        },
    }),
    epsilon: chart($('chart-epsilon'), {
        title: 'Epsilon after each round',
        kind: 'line',
        series: [
            { name: 'against a server', c: 0, of: (r) => r.epsilon_server },
            { name: 'against everybody else', c: 5, of: (r) => r.epsilon_others, dashed: true },
            { name: 'budget', c: 3, of: (r) => r.epsilon_target, dashed: true },
        ],
    }),
    people: chart($('chart-people'), {
        title: 'Clients in each round',
        kind: 'stack',
        format: count,
        marks: true,
        series: [
            { name: 'update in the sum', c: 0, of: (r) => (r.skipped ? undefined : r.clients) },
            { name: 'late', c: 1, of: (r) => lost(r, 'late') },
            { name: 'dropped', c: 3, of: (r) => lost(r, 'dropped') },
            { name: 'refused', c: 4, of: (r) => lost(r, 'refused') },
            { name: 'not seen', c: 5, of: (r) => lost(r, 'not seen') },
        ],
    }),
    seconds: chart($('chart-seconds'), {
        title: 'Seconds of each round',
        kind: 'stack',
        format: seconds,
        series: [
            { name: 'clients train and upload', c: 0, of: collecting },
            { name: 'reveal', c: 1, of: (r) => r.open_seconds },
            { name: 'release', c: 2, of: (r) => r.release_seconds },
            { name: 'training', c: 0, of: (r) => r.train_seconds },
            { name: 'encryption', c: 3, of: (r) => r.encrypt_seconds },
            { name: 'addition', c: 4, of: (r) => r.sum_seconds },
            { name: 'two-party computation', c: 1, of: (r) => r['2pc_seconds'] },
            { name: 'step', c: 2, of: (r) => r.step_seconds },
            { name: 'validation', c: 5, of: (r) => r.eval_seconds },
        ],
    }),
    bytes: chart($('chart-bytes'), {
        title: 'Bytes of each round',
        kind: 'stack',
        format: bytes,
        series: [
            { name: 'clients upload', c: 0, of: (r) => r.up_bytes },
            { name: 'clients download', c: 5, of: (r) => r.down_bytes },
            { name: 'noise shares, made ahead', c: 2, of: (r) => r.ahead_bytes },
            { name: 'reveal', c: 1, of: (r) => r.open_bytes },
            { name: 'between the servers', c: 4, of: (r) => r.link_bytes },
        ],
    }),
});
const charts = data?.runs.length > 1 ? sharedCharts(data.runs) : ownCharts();

async function get(path) {
    try {
        const answer = await fetch(path, { cache: 'no-store' });
        if (answer.status === 401) {
            lock();
            return null;
        }
        return answer.ok ? await answer.json() : null;
    } catch {
        return null;
    } // the stream notices that the server is gone, and says so
}
const clients = grid($('grid'), get, (c) => words.total(words.missingFrom({}, c, facts.expected)));

// ---- announcements: few, and never more than one in ten seconds ----------------------------------
let toSay = '',
    saidAt = 0,
    sayTimer = 0;
function announce(text) {
    toSay = text;
    if (sayTimer) return;
    sayTimer = setTimeout(
        () => {
            sayTimer = 0;
            saidAt = Date.now();
            say($('says'), toSay);
        },
        Math.max(0, saidAt + 10000 - Date.now()),
    );
}

// ---- the first screen ---------------------------------------------------------------------------
function bar(share, kind, name, text) {
    const fill = h('i');
    fill.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
    return h(
        'div',
        {
            class: `bar ${kind}`,
            ...(name
                ? {
                      role: 'meter',
                      'aria-label': name,
                      'aria-valuemin': 0,
                      'aria-valuemax': 100,
                      'aria-valuenow': Math.round(100 * Math.max(0, Math.min(1, share))),
                      'aria-valuetext': text,
                  }
                : {}),
        },
        fill,
    );
}

function drawTiles(found) {
    const tiles = [
        about ? ['Perplexity', qualityTile(state, about)] : ['State', words.stateTile(state, found, now())],
        about ? ['Time', tookTile(state)] : ['Time left', words.timeTile(state, now())],
        ['Privacy spent', words.privacyTile(state, about)],
        ['Missing', words.missingTile(state, missing, turnout.get(state.last?.round), facts.expected)],
    ];
    swap(
        $('tiles'),
        ...tiles
            .filter(([, t]) => t)
            .map(([name, [kind, big, sub, share]]) =>
                h(
                    'div',
                    { class: kind ? `is-${kind}` : '' },
                    h('dt', {}, name),
                    h('dd', { class: 'big' }, Array.isArray(big) ? [big[0], h('small', {}, big[1])] : big),
                    sub ? h('dd', { class: 'sub' }, sub) : null,
                    known(share)
                        ? h('dd', { class: 'share', 'aria-hidden': 'true' }, bar(share, 'thin'))
                        : null,
                ),
            ),
    );
}

function drawProgress() {
    const r = state.round || {},
        on = state.phase === 'collecting' && known(r.arrived) && known(r.need);
    if (!show('progress', on)) return;
    const most = Math.max(r.most || 0, r.need, r.arrived, 1),
        enough = r.arrived >= r.need;
    const text = `${count(r.arrived)} of at least ${count(r.need)} updates have arrived`;
    const tick = h(
        'div',
        { class: `tick${r.need > 0.6 * most ? ' left' : ''}`, 'aria-hidden': 'true' },
        `needs ${count(r.need)}`,
    );
    tick.style.left = `${(100 * r.need) / most}%`;
    const facts = [
        ['arrived', r.arrived],
        ['fetched the model', r.asked],
        ['refused', r.refused],
        ['late', r.late],
    ].filter(([, n]) => known(n));
    swap(
        $('progress'),
        h(
            'div',
            { class: 'track' },
            tick,
            bar(r.arrived / most, enough ? 'good-fill' : '', 'Updates of this round', text),
        ),
        h(
            'p',
            { class: 'under' },
            facts.map(([name, n]) => h('span', {}, h('b', {}, count(n)), ` ${name}`)),
            known(r.most) ? h('span', {}, 'the round closes at ', h('b', {}, count(r.most))) : null,
        ),
    );
}

function drawNow() {
    say($('sentence'), words.sentence(state, now()));
    const found = words.problems(state, now());
    drawTiles(found);
    drawProgress();
    show('problems', found.length > 0);
    swap(
        $('problems'),
        found.map(([kind, what, means]) => h('li', { class: kind }, h('b', {}, what), ` ${means}`)),
    );
    title(found);
}

function title(found) {
    const n = state?.round?.number ?? state?.last?.round,
        total = state?.task?.rounds;
    const round = known(n) ? `Round ${n}${known(total) ? ` of ${total}` : ''}` : 'SEFL';
    const away = goneSince && (stopped ? 'Stopped' : 'No answer');
    const what = (data && 'Report') || away || (found.some(([kind]) => kind === 'bad') ? 'Needs you' : '');
    document.title = `${what || (state?.phase === 'done' ? 'Done' : round)} · ${state?.task?.name || 'SEFL'}`;
}

// ---- the sections -------------------------------------------------------------------------------
function drawPrivacy() {
    const p = state.privacy;
    if (!show('privacy', Boolean(p) && (p.claimed || !data))) return;
    if (!p.claimed) {
        const z = state.task?.z;
        swap(
            $('budget'),
            h(
                'p',
                { class: 'note weak lead' },
                h('b', {}, 'This run claims no differential privacy. '),
                state.task?.noise === 'none'
                    ? 'The sums carry no noise.'
                    : `Its noise${z ? ` (z = ${z})` : ''} is too small for any guarantee.`,
                ` ${words.hiding(state)}`,
            ),
        );
        return;
    }
    const unit = state.task?.unit === 'record' ? 'one record of a client' : 'one client';
    const line = (name, eps) => {
        if (!known(eps)) return null;
        const target = p.epsilon_target,
            text = known(target) ? `epsilon ${epsilon(eps)} of ${number(target)}` : `epsilon ${epsilon(eps)}`;
        return h(
            'div',
            {},
            h(
                'p',
                { class: 'head' },
                h('span', {}, name),
                h(
                    'span',
                    {},
                    h('b', {}, `ε ${epsilon(eps)}`),
                    known(target) ? ` of ${number(target)} (${Math.round((100 * eps) / target)} %)` : '',
                ),
            ),
            known(target) ? bar(eps / target, words.tooSoon(state) ? 'bad-fill' : '', name, text) : null,
        );
    };
    swap(
        $('budget'),
        h(
            'div',
            { class: 'budgets' },
            line('Against a server', p.epsilon_server),
            line('Against everybody else', p.epsilon_others),
        ),
        h('p', { class: 'lead' }, words.budgetSentence(state)),
        h(
            'p',
            { class: 'soft' },
            `The bound protects ${unit}${known(p.delta) ? `, at delta ${small(p.delta)}` : ''}` +
                `${state.task?.z ? `, with noise multiplier z = ${number(Number(state.task.z))}` : ''}.`,
        ),
        state.task?.mode ? h('p', { class: 'soft' }, `Mode ${state.task.mode}.`) : null,
    );
}

function drawServers() {
    const { csp, supply, ledgers, totals = {} } = state,
        rows = [];
    const row = (name, kind, mark, rest) =>
        rows.push(
            h('dt', {}, name),
            h('dd', {}, h('span', { class: `mark ${kind}` }, mark), rest ? ` ${rest}` : ''),
        );
    const since = (t) => (known(t) ? `since ${clock(t, now())}` : '');
    if (csp) {
        const other = state.role === 'csp' ? 'Link to the aggregation server' : 'Link to CSP';
        row(
            other,
            csp.connected ? 'good' : 'bad',
            csp.connected ? 'connected' : 'not connected',
            `${since(csp.since)}${csp.last_error ? `; last error: ${csp.last_error}` : ''}`,
        );
    }
    if (supply && state.phase !== 'done') {
        const ready = supply.rounds_ready;
        row(
            'Noise ahead',
            ready > 0 ? 'good' : 'weak',
            known(ready) ? `ready for ${plural(ready, 'round')}` : 'not known',
            `and ${supply.making ? 'more' : 'none'} is being made` +
                `${known(supply.lanes) ? ` over ${plural(supply.lanes, 'connection')}` : ''}`,
        );
    }
    if (ledgers) {
        const n = known(ledgers.rounds) ? plural(ledgers.rounds, 'charged round') : 'the charged rounds',
            more = ledgers.compared ? ` ${ledgers.compared.replace(/\.?$/, '.')}` : '';
        if (ledgers.agree === undefined) row('Ledgers', '', 'not compared yet;', `this one has ${n}.${more}`);
        else
            row(
                'Ledgers',
                ledgers.agree ? 'good' : 'bad',
                ledgers.agree ? 'agree' : 'differ',
                `on ${n}.${more}`,
            );
    }
    if (known(totals.rounds)) {
        const parts = [
            [totals.released, 'released'],
            [totals.skipped, 'skipped'],
            [totals.blocked, 'blocked'],
        ].filter(([n]) => known(n));
        row(
            'Rounds',
            '',
            count(totals.rounds),
            parts.length ? `(${parts.map(([n, name]) => `${count(n)} ${name}`).join(', ')})` : '',
        );
    }
    if (known(totals.up_bytes))
        row(
            'Bytes in all',
            '',
            `${bytes(totals.up_bytes)} up`,
            known(totals.down_bytes) ? `and ${bytes(totals.down_bytes)} down` : '',
        );
    show('servers', rows.length > 0);
    swap($('server-facts'), rows);
    show('servers-what', Boolean(csp || ledgers));
    say($('servers-h'), csp || ledgers ? 'The two servers' : 'The run so far');
}

const FILES = {
    model: ['The model', 'the latest release, as safetensors'],
    report: ['The report', 'one HTML page with every chart'],
    ledger: ['The ledger', 'every charge of privacy, hash-chained'],
};
function drawFiles() {
    const names = (state.downloads || []).filter((n) => FILES[n]);
    show('files', names.length > 0);
    swap(
        $('file-list'),
        ...names.map((n) =>
            h(
                'li',
                {},
                h('a', { href: n, download: true }, h('b', {}, FILES[n][0]), h('span', {}, FILES[n][1])),
            ),
        ),
    );
}

function drawRounds() {
    for (const [name, c] of Object.entries(charts)) {
        const has = !c.empty(rounds);
        $(`chart-${name}`).hidden = !has;
        if (has) c.draw(rounds);
    }
    if (!charts.epsilon.empty(rounds)) show('privacy', true);
    show('quality', !charts.quality.empty(rounds));
    show('cost', !charts.seconds.empty(rounds) || !charts.bytes.empty(rounds));
    show('grid', state.grid === true);
    show('people', state.grid === true || (state.role !== 'csp' && !charts.people.empty(rounds)));
}

function drawHead() {
    const { task = {}, role } = state,
        name = task.name || 'SEFL';
    say($('name'), name);
    say($('role'), words.ROLES[role] || '');
    say(
        $('foot'),
        [
            state.version ? `sefl ${state.version}` : '',
            task.id ? `task ${task.id.slice(0, 16)}` : '',
            known(task.enrolled) ? `${plural(task.enrolled, 'client')} enrolled` : '',
            known(task.need) ? `at least ${count(task.need)} per round` : '',
            task.noise ? `noise: ${task.noise}` : '',
            state.crypto ? `crypto: ${state.crypto}` : '',
        ]
            .filter(Boolean)
            .join(' · '),
    );
}

// ---- data ---------------------------------------------------------------------------------------
async function moreRounds() {
    if (fetching || state.role === 'csp') return; // CSP has no list of rounds
    fetching = true;
    const task = state.task?.id;
    for (let more = true; more;) {
        const after = rounds.length ? rounds[rounds.length - 1].round : 0;
        const got = await get(`rounds.json?after=${after}`);
        if (!got?.rounds || state.task?.id !== task) break;
        const expected = facts.expected;
        facts = got.facts || {};
        if (facts.expected !== expected) clients.redraw();
        rounds.push(...got.rounds.filter((r) => r.round > after));
        more = got.more === true && got.rounds.length > 0;
    }
    fetching = false;
    drawRounds();
}

// A federation's rounds do not say who was lost, but the counts of its grid do.
async function whoIsMissing() {
    const last = state.last?.round;
    missing = [];
    if (!state.grid || !last) return;
    const first = Math.max(1, last - 59);
    if (first < last && !turnout.has(last - 1))
        counts(await get(`grid.json?first=${first}&rounds=${last - first}&from=0&clients=1`));
    const got = await get(`grid.json?first=${last}&rounds=1&from=0&clients=200&sort=worst`);
    if (!got?.clients || state.last?.round !== last) return;
    counts(got);
    missing = got.clients
        .map((c) => [c.name, kindOf(c.cells[0] ?? ' ')])
        .filter(([, k]) => 'ldrx'.includes(k) || (k === 'o' && known(facts.expected)))
        .sort(([, a], [, b]) => (a === 'o') - (b === 'o'))
        .map(([name, k]) => [
            name,
            KINDS[k].name,
            'rx'.includes(k) && (got.why || []).find((w) => w.client === name)?.reason,
        ]);
    drawNow();
    drawRounds();
}
function counts(got) {
    for (const c of got?.counts || []) turnout.set(c.round, c);
}

async function sample() {
    const of = `${state.task?.id ?? state.task?.name} ${state.sample_round}`;
    if (!state.sample) {
        wrote = null;
        show('sample', false);
        return;
    }
    if (of === wrote) return;
    const got = await get('sample.json');
    if (!got?.text) return;
    wrote = of;
    say($('sample-by'), `Text that the model of round ${got.round} generated. It may be nonsense.`);
    say($('sample-text'), got.text);
    show('sample', true);
}

let gridTimer = 0;
function gridSoon() {
    // at most every three seconds: a round may be shorter, and the grid may be large
    if (gridTimer || !state.grid) return;
    clients.update(state.last?.round ?? (state.round?.number ?? 1) - 1);
    gridTimer = setTimeout(() => {
        gridTimer = 0;
        clients.update(state.last?.round ?? 0);
    }, 3000);
}

function news(before) {
    const last = state.last?.round,
        problem = words.problems(state, now())[0]?.[1];
    const was = before && words.problems(before, now())[0]?.[1];
    if (problem && problem.replace(/\d+/g, '') !== (was || '').replace(/\d+/g, '')) announce(problem);
    else if (before && was && !problem) announce('All is fine again.');
    else if (before && state.phase === 'done' && before.phase !== 'done')
        announce(words.sentence(state, now()));
    else if (before && last !== before.last?.round)
        announce(
            `Round ${last} is over${known(state.last.perplexity) ? `: perplexity ${number(state.last.perplexity)}` : ''}.`,
        );
}

function take(next) {
    const before =
        state && state.task?.id === next.task?.id && (next.last?.round ?? 0) >= (state.last?.round ?? 0)
            ? state
            : null;
    if (state && !before) {
        rounds = [];
        missing = [];
        facts = {};
        turnout.clear();
        wrote = null;
        clients.reset();
        show('sample', false);
    }
    state = next;
    if (known(state.time)) skew = state.time - Date.now() / 1000;
    back();
    drawHead();
    drawNow();
    drawPrivacy();
    drawServers();
    drawFiles();
    const last = state.last?.round;
    if (!before || last !== before.last?.round || (last ?? 0) > (rounds[rounds.length - 1]?.round ?? 0)) {
        moreRounds().then(whoIsMissing); // the facts say how many a round expects
    }
    gridSoon();
    sample();
    news(before);
}

// ---- a report -----------------------------------------------------------------------------------
function report() {
    const [run] = data.runs;
    link('report', 'report');
    drawRuns(data);
    if (about) {
        ({ state, facts, rounds } = run);
        drawPrivacy();
        drawServers();
    } else {
        state = { phase: 'report', runs: data.runs.length, task: { name: 'SEFL' } };
        rounds = merge(data.runs);
    }
    drawHead();
    say($('sentence'), words.sentence(state, now()));
    if (about) drawNow();
    else title([]);
    drawRounds();
}

// ---- the connection -----------------------------------------------------------------------------
function link(kind, text) {
    $('link').dataset.state = kind;
    say($('link').firstElementChild, text);
}
function back() {
    if (goneSince) announce('The server answers again.');
    goneSince = 0;
    stopped = '';
    locked = false;
    document.body.classList.remove('stale');
    show('gone', false);
    link('live', 'live');
}
function gone() {
    if (!goneSince) {
        goneSince = Date.now() / 1000;
        announce(stopped || 'The server does not answer.');
    }
    title([]);
    document.body.classList.add('stale');
    link('gone', stopped ? 'stopped' : 'no answer');
    if (stopped) say($('gone'), `${stopped} What you see is its last state.`);
    else if (!locked)
        say(
            $('gone'),
            `The server has not answered since ${clock(goneSince)}. ` +
                (state ? 'What you see is from before. ' : '') +
                'This page tries again every two seconds.',
        );
    show('gone', true);
}
function lock() {
    locked = true;
    stopped = '';
    say(
        $('gone'),
        'The server does not know this browser any more. Open the address in the file page.url of its state folder.',
    );
    gone();
}

let stream = null,
    retry = 0;
function connect() {
    clearTimeout(retry);
    stream?.close();
    stream = new EventSource('events');
    stream.addEventListener('state', (e) => {
        try {
            take(JSON.parse(e.data));
        } catch (problem) {
            console.error(problem);
        }
    });
    stream.addEventListener('over', (e) => {
        try {
            const last = JSON.parse(e.data);
            if (last.task) take(last);
        } catch (problem) {
            console.error(problem);
        }
        stopped = `The server stopped${state?.phase === 'done' ? ' after the task ended' : ''}.`;
        gone();
    });
    stream.addEventListener('error', () => {
        gone();
        if (stream.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
        get('state.json').then((st) => {
            if (st) take(st);
        });
        retry = setTimeout(connect, 2000);
    });
}
function live() {
    setInterval(() => {
        if (state && !goneSince) drawNow();
    }, 1000); // the countdown
    setInterval(async () => {
        // a server that hangs keeps the connection open
        if (goneSince || !state) return;
        const timeout = setTimeout(gone, 8000),
            st = await get('state.json');
        clearTimeout(timeout);
        if (st) take(st);
    }, 30000);
    window.addEventListener('pagehide', () => stream?.close());
    window.addEventListener('pageshow', (e) => {
        if (e.persisted) connect();
    });
    get('state.json').then((st) => {
        if (st) take(st);
        connect();
    });
}
if (data) report();
else live();
