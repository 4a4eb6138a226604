// The page with made-up data: states that a small federation does not reach (mock.mjs).
import { mock } from './mock.mjs';
import { open, visit, clean, look, until, must } from './browser.mjs';

const { context, close } = await open();
const text = (page, selector) => page.locator(selector).innerText();
const shown = (page, selector) => page.locator(selector).isVisible();

const tests = {
    async 'every kind of state, both themes, narrow and wide'() {
        const both = ['growing', 'trouble'],
            light = ['csp'],
            dark = ['large', 'unclaimed', 'bare'];
        for (const scenario of [...both, ...light, ...dark]) {
            const m = await mock(scenario),
                page = await visit(context, m.url);
            await until('the first state', () => page.locator('#link[data-state=live]').count());
            if (!dark.includes(scenario)) await look(page, `mock-${scenario}-light`, { theme: 'light' });
            if (!light.includes(scenario))
                await look(page, `mock-${scenario}-dark`, { theme: 'dark', width: 400 });
            await page.setViewportSize({ width: 360, height: 700 });
            must(
                (await page.evaluate(() => document.documentElement.scrollWidth)) <= 360,
                `${scenario}: wider than 360 px`,
            );
            clean(page, scenario);
            await page.close();
            await m.stop();
        }
    },

    async sentences() {
        const m = await mock('growing'),
            page = await visit(context, m.url);
        await until('a countdown', async () =>
            /^Round 13 of 40 collects updates: 9 of at least 12 have arrived, \d+\ss left\.$/.test(
                await text(page, '#sentence'),
            ),
        );
        m.set({ phase: 'revealing' });
        await until(
            'revealing',
            async () =>
                (await text(page, '#sentence')) === 'Round 13 of 40 reveals the noisy sum of its updates.',
        );
        must(!(await shown(page, '#progress')), 'a bar of arrivals after the round closed');
        m.set({ csp: { connected: false, last_error: 'connection refused' }, healthy: false });
        await until('the problem', async () => (await text(page, '#tiles')).includes('Needs you'));
        must((await text(page, '#problems')).includes('Last error: connection refused'), 'no last error');
        m.set({ csp: { connected: true }, healthy: true, paused: true });
        await until('the pause', async () => /time left\s+paused/i.test(await text(page, '#tiles')));
        must(!(await text(page, '#tiles')).includes('ends around'), 'an end while the task is paused');
        m.set({
            paused: false,
            phase: 'collecting',
            end: { rounds_left: 1, seconds_left: 5 },
            round: { ...m.run.st.round, deadline_at: Math.floor(Date.now() / 1000) + 100 },
        });
        await until('the time of the open round', async () =>
            /About (9|10)\d\ss/.test(await text(page, '#tiles')),
        );
        const waits = { ...m.run.st.round, opened_at: Math.floor(Date.now() / 1000) - 30 };
        m.set({ round: waits }); // of several processes: they do not know whom the round waits for
        await until('a round that waits', async () =>
            /Waiting\s+For updates until /.test(await text(page, '#tiles')),
        );
        m.set({ paused: false, phase: 'done' });
        await until(
            'the end',
            async () =>
                (await text(page, '#sentence')) === 'The task is over: it released 12 models in 12 rounds.',
        );
        m.over();
        await until('the stop', async () =>
            (await text(page, '#gone')).startsWith('The server stopped after the task ended.'),
        );
        must((await text(page, '#link')) === 'stopped', 'the mark of a server that stopped');
        clean(page, 'sentences');
        await m.stop();
    },

    async 'a simulation says what it encrypts'() {
        const m = await mock('simulation'),
            page = await visit(context, m.url);
        await until('clear', async () =>
            (await text(page, '#budget')).includes('It encrypts nothing (crypto: clear)'),
        );
        must((await text(page, '#foot')).includes('crypto: clear'), 'the foot');
        m.set({ crypto: 'full' });
        await until('full', async () => (await text(page, '#budget')).includes('(crypto: full)'));
        clean(page, 'simulation');
        await m.stop();
    },

    async 'a client that was not seen is missing, and ticks have different labels'() {
        const m = await mock('unseen'),
            page = await visit(context, m.url);
        await until('the tile', async () =>
            (await text(page, '#tiles')).includes('in round 4: site-03 / 3f2a91c3 not seen.'),
        );
        await until('the row', async () =>
            /missing\s+0\s+0\s+0\s+1$/m.test(await text(page, '#grid thead')),
        );
        must((await text(page, '#chart-people .legend')).includes('not seen'), 'the chart');
        const label = await page.locator('#grid td.cell-o').getAttribute('aria-label');
        must(label.endsWith('round 4: not seen: it did not fetch the model'), label);
        const labels = '#chart-seconds svg[role=img] text[text-anchor=end]';
        const ticks = await page.locator(labels).allTextContents();
        must(ticks.length > 2 && new Set(ticks).size === ticks.length, `ticks ${ticks}`);
        clean(page, 'unseen');
        await m.stop();
    },

    async 'no grid and no numbers of clients where the server gives none'() {
        const c = await mock('csp'),
            csp = await visit(context, c.url);
        await until('the budget', () => shown(csp, '#privacy'));
        for (const id of ['quality', 'people', 'cost', 'sample', 'files'])
            must(!(await shown(csp, `#${id}`)), `CSP's page shows ${id}`);
        must(
            (await text(csp, '#server-facts')).includes('agree on 9 charged rounds.'),
            'no agreement of ledgers',
        );
        await c.stop();
    },

    async 'new rounds, another task, and a server that goes away'() {
        const m = await mock('growing'),
            page = await visit(context, m.url),
            port = Number(new URL(m.url).port);
        const points = () => page.locator('#chart-quality circle').count();
        await until('twelve points', async () => (await points()) === 12);
        m.step();
        await until('thirteen', async () => (await points()) === 13);
        must(
            (await text(page, '#says')) ===
                'Round 13 is over: perplexity ' +
                    (await page.locator('#chart-quality .end').textContent()) +
                    '.',
            'round 13 is not announced',
        );
        page.quiet = true;
        await m.stop();
        await until('the page says so', async () =>
            (await text(page, '#gone')).startsWith('The server has not answered since'),
        );
        must((await text(page, '#link')) === 'no answer', 'the mark in the corner');
        const again = await mock('unclaimed', port);
        await until(
            'the page is back',
            async () => (await text(page, '#link')) === 'live' && !(await shown(page, '#gone')),
        );
        await until('rounds of the new run', async () => (await points()) === 12);
        page.quiet = false;
        clean(page, 'restart');
        await again.stop();
    },

    async 'the grid: pages, order, reasons, keys'() {
        const m = await mock('large'),
            page = await visit(context, m.url);
        await page.locator('#grid td.cell').first().waitFor();
        const first = () => text(page, '#grid tbody tr:first-child th');
        must((await text(page, '#grid .tools')).includes('1 to 40 of 10,000'), 'which clients');
        await page.getByRole('button', { name: 'Later clients in the list' }).click();
        await until('client 41', async () => (await first()).startsWith('site-41 '));
        await page.getByRole('button', { name: 'Older rounds' }).click();
        await until('older rounds', async () => !(await text(page, '#grid .tools')).includes('to 1000'));
        m.step(); // the reader's window stays where it is
        await page.waitForTimeout(200);
        must((await first()).startsWith('site-41 '), 'the window moved by itself');
        await page.selectOption('#grid-sort', 'name');
        await until('the first client', async () => (await first()).startsWith('site-01 '));
        await page.locator('#grid td.cell[tabindex="0"]').focus();
        await page.keyboard.press('Home');
        await page.keyboard.press('ArrowDown');
        await page.keyboard.press('ArrowRight');
        const label = await page.evaluate(() => document.activeElement.getAttribute('aria-label'));
        must(/^site-02 \S* ?\S*, round \d+: /.test(label), `keys lead to "${label}"`);
        must(
            (await text(page, '#grid .about')) === label,
            'the line below the grid does not describe the cell',
        );
        clean(page, 'grid');
        await m.stop();
    },

    async 'a walk by keyboard: every stop is visible and has a name'() {
        const m = await mock('growing'),
            page = await visit(context, m.url);
        await page.locator('#grid td.cell').first().waitFor();
        const seen = [];
        for (let i = 0; i < 60; i++) {
            await page.keyboard.press('Tab');
            const at = await page.evaluate(() => {
                const e = document.activeElement,
                    box = e.getBoundingClientRect(),
                    style = getComputedStyle(e);
                if (e === document.body) return null;
                return {
                    name: (
                        e.getAttribute('aria-label') ||
                        e.labels?.[0]?.innerText ||
                        e.innerText ||
                        ''
                    ).trim(),
                    ring: style.outlineStyle !== 'none',
                    seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight,
                };
            });
            if (!at) break;
            must(at.name && at.ring && at.seen, `stop ${i + 1}: ${JSON.stringify(at)}`);
            seen.push(at.name);
        }
        must(seen[0] === 'Skip to the run', `the first stop is "${seen[0]}"`);
        for (const name of ['Theme', 'What is perplexity?', 'Show as a table', 'The model'])
            must(
                seen.some((s) => s.startsWith(name)),
                `no stop at "${name}": ${seen.join(' | ')}`,
            );
        await page.locator('#chart-quality summary').focus();
        await page.keyboard.press('Enter');
        await until('the table', async () => (await page.locator('#chart-quality tbody tr').count()) === 12);
        clean(page, 'keyboard');
        await m.stop();
    },

    async 'the theme is kept'() {
        const m = await mock('csp'),
            page = await visit(context, m.url);
        const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        await page.selectOption('#theme', 'dark');
        const dark = await ground();
        await page.reload();
        must(
            (await page.inputValue('#theme')) === 'dark' && (await ground()) === dark,
            'the choice is lost by a reload',
        );
        await page.selectOption('#theme', '');
        await page.emulateMedia({ colorScheme: 'light' });
        const light = await ground();
        await page.emulateMedia({ colorScheme: 'dark' });
        must(light !== dark && (await ground()) === dark, "the page does not follow the system's theme");
        await m.stop();
    },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
    const began = Date.now();
    try {
        await test();
        console.log(`ok      ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
    } catch (e) {
        failed++;
        console.log(`FAILED  ${name}\n  ${e.stack}`);
    }
    for (const page of context.pages().slice(1)) await page.close();
}
await close();
process.exit(failed ? 1 : 0);
