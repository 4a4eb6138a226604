// The page during a live federation: CSP, AS and clients as processes on loopback. A client is killed while it
// trains, and then AS; the page must show the one and survive the other.
import fs from 'node:fs';
import path from 'node:path';
import { Federation } from './federation.mjs';
import { open, visit, clean, look, until, must, out } from './browser.mjs';

const CLIENTS = 6,
    ROUNDS = 16;
const began = Date.now();
const note = (text) => console.log(`${((Date.now() - began) / 1000).toFixed(1).padStart(5)} s  ${text}`);
const { context, close } = await open();
// prettier-ignore
const fed = new Federation(['--clients', String(CLIENTS), '--words', '12000', ...[
    'name=ward-letters', `rounds.count=${ROUNDS}`, 'rounds.threshold=3', `rounds.enough=${CLIENTS}`,
    'rounds.deadline_ms=4500', 'rounds.extend_ms=4500',
].flatMap((x) => ['--set', x])]);

async function run() {
    await fed.csp();
    await fed.aggregator('--linger', '600');
    const url = new URL(fed.at.aggregator.url);
    note(`servers run; the page is ${url.origin}`);

    // without the token there is one sentence and nothing else
    const stranger = await context.newPage(),
        refused = await stranger.goto(url.origin);
    must(refused.status() === 401, `without a token: ${refused.status()}`);
    must(
        (await stranger.innerText('body')).includes('page.url'),
        `without a token: ${await stranger.innerText('body')}`,
    );
    must(
        (await context.request.get(`${url.origin}/state.json`)).status() === 401,
        'state.json without a token',
    );
    await stranger.close();

    const page = await visit(context, url.href);
    must(!page.url().includes('token'), 'the token stays in the address');
    const points = () => page.locator('#chart-quality circle').count();
    const text = (selector) => page.locator(selector).innerText();
    const now = () => page.evaluate(async () => (await fetch('state.json')).json());
    await until('the page is live', async () => (await text('#link')) === 'live');
    await until('waiting for updates', async () =>
        /^Round 1 of 16 collects updates: 0 of at least 3 have arrived, \d+\ss left\.$/.test(
            await text('#sentence'),
        ),
    );
    for (let i = 1; i <= CLIENTS; i++) fed.client(i);
    let before = await until('a first point', points);
    for (let i = 0; i < 2; i++)
        before = await until('more points', async () => {
            const n = await points();
            return n > before && n;
        });
    note(`curves grow: ${before} rounds`);

    // a client that has fetched the model dies before it uploads (or, on a busy machine, just after: then once more)
    const last = `client-0${CLIENTS}`;
    let round = 0,
        cell = null;
    for (let i = 0; i < 3 && !cell; i++) {
        if (i > 0) fed.client(CLIENTS);
        const s = await until('all clients train', async () => {
            const at = await now();
            return at.round?.asked === CLIENTS && at.round.arrived === 0 && at;
        });
        fed.kill(last, 'SIGKILL');
        round = s.round.number;
        const column = `#grid td.cell[aria-label*=", round ${round}:"]`;
        await until('the round in the grid', async () => (await page.locator(column).count()) > 0);
        const lost = page.locator(`#grid td.cell-d[aria-label*=", round ${round}:"]`);
        cell = (await lost.count()) > 0 && (await lost.first().getAttribute('aria-label'));
    }
    must(
        cell.startsWith(`${last} `) && cell.endsWith('dropped: fetched the model and sent no update in time'),
        `the cell says "${cell}"`,
    );
    await until('the missing one in the first screen', async () =>
        (await text('#tiles')).includes(`${last} `),
    );
    note(`shown: ${cell}`);
    // with three clients stopped no round reaches its threshold: a picture of an open round, however busy the machine
    const some = [1, 2, 3].map((i) => `client-0${i}`);
    for (const name of some) fed.kill(name, 'SIGSTOP');
    await until('a bar of arrivals', async () => /^[12] arrived/.test(await text('#progress .under')));
    await look(page, 'federation-light', { theme: 'light', full: false });
    for (const name of some) fed.kill(name, 'SIGCONT');
    fed.client(CLIENTS);

    // AS dies and comes back at the same address
    await until('another round', async () => (await now()).last.round > round);
    const had = await points();
    page.quiet = true;
    fed.kill('aggregator', 'SIGKILL');
    await until('the page says that AS is gone', async () =>
        (await text('#gone')).includes('has not answered since'),
    );
    await fed.aggregator('--linger', '600');
    await until('the page is back', async () => (await text('#link')) === 'live');
    page.quiet = false;
    await until('the curve goes on', async () => (await points()) > had);
    note('AS was killed and started again; the page went on by itself');

    await until('the end', async () => (await now()).phase === 'done', 40000);
    await until('the page says so', async () =>
        (await text('#sentence')).startsWith('The task is over: it released'),
    );
    await until('the sample', () => page.locator('#sample').isVisible());
    await look(page, 'federation-all-light', { theme: 'light' });
    await look(page, 'federation-all-dark', { theme: 'dark' });
    await look(page, 'federation-400-dark', { theme: 'dark', width: 400 });
    await look(page, 'federation-400-light', { theme: 'light', width: 400 });
    note(`the task is over: ${await points()} points`);

    for (const name of ['model', 'report', 'ledger']) {
        const link = page.locator(`#files a[href=${name}]`),
            [file] = await Promise.all([page.waitForEvent('download'), link.click()]);
        must(fs.statSync(await file.path()).size > 100, `${name}: an empty download`);
        note(`download: ${file.suggestedFilename()}`);
    }
    clean(page, "AS's page");

    const csp = await visit(context, fed.at.csp.url);
    await until("CSP's page", async () => (await csp.innerText('#link')) === 'live');
    for (const id of ['quality', 'people', 'cost', 'sample'])
        must(!(await csp.locator(`#${id}`).isVisible()), `CSP's page shows ${id}`);
    must((await csp.innerText('#server-facts')).includes('Ledgers'), 'no ledgers on the page of CSP');
    await look(csp, 'federation-csp-dark', { theme: 'dark' });
    clean(csp, "CSP's page");
    note(`screenshots in ${out}`);
}

let failed = false;
try {
    await run();
} catch (e) {
    failed = true;
    console.log(`FAILED  ${e.stack}`);
    for (const name of ['aggregator', 'csp']) console.log(`---- ${name}\n${fed.log(name)}`);
    const page = context.pages().at(-1);
    await page?.screenshot({ path: path.join(out, 'failed.png'), fullPage: true }).catch(() => {});
}
await close();
fed.end();
process.exit(failed ? 1 : 0);
