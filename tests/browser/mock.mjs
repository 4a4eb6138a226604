// A server with made-up data, for what a small federation cannot show: ten thousand clients, an almost empty state,
// problems of every kind. It serves the files of src/host/page/web as they are in the tree.
//
//     const m = await mock('large');  m.url;  m.set({ phase: 'done' });  m.stop();
//     node mock.mjs large 8080                     # to look at it
import http from 'node:http';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const web = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../src/host/page/web');
const types = {
    html: 'text/html; charset=utf-8',
    css: 'text/css; charset=utf-8',
    js: 'text/javascript; charset=utf-8',
    svg: 'image/svg+xml',
};
const headers = {
    'Content-Security-Policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
    'Cache-Control': 'no-store',
};
const chance = (a, b) => {
    let x = (a * 2654435761 + b * 40503 + 12345) >>> 0;
    x ^= x >>> 15;
    x = (x * 2246822519) >>> 0;
    return ((x ^ (x >>> 13)) >>> 0) / 2 ** 32;
};

function line(n, clients) {
    const skipped = n % 17 === 0,
        lost = n % 5 === 0 ? Math.ceil(clients * 0.03) : 0;
    return {
        round: n,
        skipped,
        ...(n % 23 === 0 ? { blocked: true } : {}),
        clients: skipped ? 0 : clients - lost - (n % 7 === 0 ? 1 : 0),
        refused: n % 7 === 0 ? 1 : 0,
        late: Math.floor(lost / 3),
        dropped: lost - Math.floor(lost / 3),
        asked: clients,
        ...(skipped ? {} : { perplexity: 8.4 + 420 * Math.exp(-n / 9) + chance(n, 1) }),
        epsilon_server: 0.35 * Math.sqrt(n),
        epsilon_others: 0.2 * Math.sqrt(n),
        epsilon_target: 8,
        seconds: 40 + 10 * chance(n, 2),
        ahead_seconds: 3,
        open_seconds: 2.1,
        release_seconds: 0.4,
        up_bytes: 71700 * clients,
        down_bytes: 86000 * clients,
        ahead_bytes: 35e6 * (n % 3 === 0),
        open_bytes: 136000,
        time: 1794893000 + 42 * n,
    };
}

const now = () => Math.floor(Date.now() / 1000);
function state(n, total, clients) {
    return {
        role: 'aggregator',
        version: '0.2.0',
        time: now(),
        phase: 'collecting',
        healthy: true,
        paused: false,
        task: {
            id: 'ec6bd3141c1f8064'.repeat(4),
            name: 'ward letters',
            rounds: total,
            noise: 'joint',
            z: '1.1',
            unit: 'client',
            enrolled: clients,
            need: Math.ceil(clients / 2),
        },
        round: {
            number: n + 1,
            arrived: Math.ceil(clients * 0.34),
            need: Math.ceil(clients / 2),
            most: clients,
            asked: Math.ceil(clients * 0.8),
            refused: 1,
            late: 0,
            opened_at: now() - 20,
            deadline_at: now() + 40,
        },
        end: { rounds_left: total - n, seconds_left: (total - n) * 42 },
        privacy: {
            claimed: true,
            epsilon_server: 0.35 * Math.sqrt(n),
            epsilon_others: 0.2 * Math.sqrt(n),
            epsilon_target: 8,
            delta: 1e-6,
            rounds_to_target: 500,
        },
        csp: { connected: true, since: now() - 5000 },
        supply: { rounds_ready: 2, making: true, lanes: 1 },
        ledgers: { agree: true, rounds: n },
        last: n ? line(n, clients) : undefined,
        totals: {
            rounds: n,
            released: n - Math.floor(n / 17),
            skipped: Math.floor(n / 17),
            blocked: 0,
            seconds: 42 * n,
            up_bytes: 71700 * clients * n,
            down_bytes: 86000 * clients * n,
        },
        downloads: ['model', 'report', 'ledger'],
        grid: true,
        sample: true,
        sample_round: n,
    };
}

const scenarios = {
    growing: () => ({ n: 12, clients: 24, st: state(12, 40, 24) }),
    large: () => ({ n: 1000, clients: 10000, st: state(1000, 1200, 10000) }),
    unclaimed: () => {
        const st = state(12, 12, 8);
        st.phase = 'done';
        st.privacy = { claimed: false };
        st.task.z = '0.02';
        return { n: 12, clients: 8, st };
    },
    csp: () => {
        const s = state(9, 40, 24);
        return {
            n: 0,
            clients: 24,
            st: {
                role: 'csp',
                version: '0.2.0',
                time: now(),
                phase: 'signed',
                healthy: true,
                task: s.task,
                round: { number: 10 },
                privacy: s.privacy,
                ledgers: {
                    agree: true,
                    rounds: 9,
                    compared: 'The aggregation server showed its ledger when round 10 began.',
                },
            },
        };
    },
    simulation: () => {
        const st = state(12, 40, 24);
        Object.assign(st, { role: 'simulation', phase: 'training', grid: false, crypto: 'clear' });
        st.privacy = { claimed: false };
        delete st.csp;
        delete st.ledgers;
        delete st.supply;
        return { n: 12, clients: 24, st };
    },
    // three clients; the third was killed before it fetched the model of round 4
    unseen: () => {
        const st = state(4, 40, 3),
            arrived = (r) => (r < 4 ? 3 : 2);
        st.last = { round: 4, clients: 2, seconds: 0.12 };
        return {
            n: 4,
            clients: 3,
            st,
            facts: { expected: 3 },
            lines: (r) => ({ round: r, clients: arrived(r), seconds: r === 4 ? 0.12 : 0.06 }),
            grid: (rounds) => ({
                enrolled: 3,
                rounds,
                clients: [1, 2, 3].map((i) => ({
                    name: `site-0${i} / 3f2a91c${i}`,
                    cells: rounds.map((r) => (i > arrived(r) ? '.' : 'a')).join(''),
                })),
                why: [],
                counts: rounds.map((r) => ({
                    round: r,
                    arrived: arrived(r),
                    late: 0,
                    dropped: 0,
                    refused: 0,
                })),
            }),
        };
    },
    bare: () => ({ n: 0, clients: 0, st: { role: 'aggregator' } }),
    trouble: () => {
        const st = state(17, 40, 24);
        Object.assign(st, {
            healthy: false,
            csp: {
                connected: false,
                since: now() - 400,
                last_error: 'cannot reach csp.south.example:7001: connection refused',
            },
            supply: { rounds_ready: 0, making: false, lanes: 1 },
            ledgers: { agree: false, rounds: 16 },
        });
        st.privacy.rounds_to_target = 4;
        st.round.deadline_at = now() + 6;
        return { n: 17, clients: 24, st };
    },
};

function gridOf(run, q) {
    const first = Number(q.get('first')),
        k = Math.min(100, Number(q.get('rounds'))),
        from = Number(q.get('from')),
        m = Math.min(200, Number(q.get('clients')));
    const rounds = [];
    for (let r = first; r < first + k && r <= run.n; r++) rounds.push(r);
    if (run.grid) return run.grid(rounds);
    const clients = [],
        why = [];
    for (let i = from; i < Math.min(from + m, run.clients); i++) {
        const name = `site-${String(i + 1).padStart(2, '0')} / ${(0x3f2a91c0 + i * 7919).toString(16)}`;
        let cells = '';
        for (const r of rounds) {
            const x = chance(i, r),
                bad = q.get('sort') === 'worst' ? 0.3 / (1 + i) : 0.01;
            cells +=
                r < run.n - 90
                    ? ' '
                    : x < bad
                      ? 'd'
                      : x < 1.6 * bad
                        ? 'l'
                        : x < 2 * bad
                          ? 'r'
                          : x > 0.995
                            ? 'x'
                            : x > 0.97
                              ? '.'
                              : 'a';
            if (cells.endsWith('r'))
                why.push({ round: r, client: name, reason: 'the signature of the head is wrong' });
        }
        clients.push({ name, cells });
    }
    return {
        enrolled: run.clients,
        rounds,
        clients,
        why,
        counts: rounds.map((r) => {
            const l = line(r, run.clients);
            return { round: r, arrived: l.clients, late: l.late, dropped: l.dropped, refused: l.refused };
        }),
    };
}

export async function mock(scenario, port = 0) {
    const run = scenarios[scenario](),
        streams = new Set();
    const json = (answer, x) => {
        answer.writeHead(200, { ...headers, 'Content-Type': 'application/json' });
        answer.end(JSON.stringify(x));
    };
    const send = () => {
        for (const s of streams) s.write(`event: state\ndata: ${JSON.stringify(run.st)}\n\n`);
    };
    const server = http.createServer((ask, answer) => {
        const u = new URL(ask.url, 'http://x'),
            name = u.pathname === '/' ? 'page.html' : u.pathname.slice(1);
        if (name === 'state.json') return json(answer, run.st);
        if (name === 'rounds.json') {
            const after = Number(u.searchParams.get('after')),
                rounds = [];
            for (let r = after + 1; r <= run.n && rounds.length < 400; r++) rounds.push((run.lines || line)(r, run.clients));
            return json(answer, {
                facts: run.facts || {},
                rounds,
                ...(after + rounds.length < run.n ? { more: true } : {}),
            });
        }
        if (name === 'grid.json' && run.st.grid) return json(answer, gridOf(run, u.searchParams));
        if (name === 'sample.json' && run.st.sample)
            return json(answer, {
                round: run.n,
                text: 'The patient was seen in the morning and the fever had gone.\nShe asked for tea , and the ward was quiet .',
            });
        if (name === 'events') {
            answer.writeHead(200, { ...headers, 'Content-Type': 'text/event-stream' });
            answer.write('retry: 500\n\n');
            streams.add(answer);
            answer.write(`event: state\ndata: ${JSON.stringify(run.st)}\n\n`);
            return ask.on('close', () => streams.delete(answer));
        }
        const file = path.join(web, path.basename(name));
        if (!fs.existsSync(file)) {
            answer.writeHead(404, headers);
            return answer.end('not found\n');
        }
        answer.writeHead(200, { ...headers, 'Content-Type': types[file.split('.').pop()] });
        return answer.end(fs.readFileSync(file));
    });
    await new Promise((done) => server.listen(port, '127.0.0.1', done));
    return {
        url: `http://127.0.0.1:${server.address().port}/`,
        run,
        set(change) {
            Object.assign(run.st, change);
            send();
        },
        step() {
            run.n++;
            Object.assign(run.st, state(run.n, run.st.task.rounds, run.clients));
            send();
        },
        over() {
            for (const s of streams) s.write(`event: over\ndata: ${JSON.stringify(run.st)}\n\n`);
        },
        stop() {
            server.closeAllConnections();
            return new Promise((done) => server.close(done));
        },
    };
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
    const m = await mock(process.argv[2] || 'growing', Number(process.argv[3] || 0));
    console.log(m.url);
    if (process.argv[4]) setInterval(() => m.step(), Number(process.argv[4]));
}
