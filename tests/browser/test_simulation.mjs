// `sefl simulate --serve`: the same page for a simulation, here of 600 clients that claim differential privacy.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { open, visit, clean, look, until, must, out } from './browser.mjs';

const sefl = process.env.SEFL || path.resolve('../../build/dev/sefl');
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sefl-simulation-'));
// prettier-ignore
const settings = ['name=many-wards', `data.path=${dir}/text`, 'data.public=true', 'data.words=100', 'clients=600',
    'rounds.count=32', 'model.embed=16', 'model.hidden=16', 'training.epochs=1', 'network.dropout=0.04',
    'privacy.claim=dp', 'privacy.z=0', 'privacy.epsilon=8'];
const { context, close } = await open();
let child;

async function run() {
    const text = spawnSync(sefl, ['data', 'synth', '--out', `${dir}/text`, '--tokens', '60000']);
    must(text.status === 0, `sefl data synth: ${text.stderr}`);
    fs.writeFileSync(`${dir}/experiment.yml`, '');
    const options = settings.flatMap((s) => ['--set', s]);
    const log = fs.openSync(`${dir}/log`, 'w');
    child = spawn(sefl, ['simulate', '-c', 'experiment.yml', '--serve', ...options], {
        cwd: dir,
        stdio: ['ignore', log, log],
    });
    const url = await until('the address', () => /http:\S+/.exec(fs.readFileSync(`${dir}/log`, 'utf8'))?.[0]);
    const page = await visit(context, url);
    const read = (selector) => page.locator(selector).innerText();
    const spent = async () => Number(/ε\s([\d.]+)/.exec(await read('#tiles'))?.[1] ?? 0);
    await until('a first charge', async () => (await spent()) > 0);
    const before = await spent();
    await until('epsilon grows', async () => (await spent()) > before);
    must((await read('#role')) === 'Simulation', 'the page does not say that it is a simulation');
    must((await read('#budget')).includes(' of 8 ('), 'no budget');
    await until(
        'half of the rounds',
        async () => (await page.locator('#chart-quality circle').count()) > 16,
        60000,
    );
    await until('arrivals in the grid', async () => (await page.locator('#grid td.cell-a').count()) > 100);
    const lost = page.locator('#grid td.cell-d');
    await until('failed clients in the grid', async () => (await lost.count()) > 0);
    must((await lost.first().getAttribute('aria-label')).includes('client-'), 'a lost client has no name');
    await look(page, 'simulation-dark', { theme: 'dark', full: false });
    await look(page, 'simulation-400-light', { theme: 'light', width: 400 });
    await until('the end', async () => (await read('#sentence')).startsWith('The task is over'), 60000);
    clean(page, 'simulation');
    console.log(`ok      a simulation with epsilon ${before} to ${await spent()}`);
}

let failed = false;
try {
    await run();
} catch (e) {
    failed = true;
    console.log(`FAILED  a simulation\n  ${e.stack}\n${fs.readFileSync(`${dir}/log`, 'utf8').slice(-2000)}`);
    await context
        .pages()
        .at(-1)
        ?.screenshot({ path: path.join(out, 'failed-simulation.png'), fullPage: true });
}
child?.kill('SIGKILL');
await close();
fs.rmSync(dir, { recursive: true, force: true });
process.exit(failed ? 1 : 0);
