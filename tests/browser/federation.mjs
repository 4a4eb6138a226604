// A federation of real processes on loopback, from a provisioned folder.
//
//     const f = new Federation(['--clients', '4', '--set', 'rounds.count=3']);
//     await f.csp();  await f.aggregator();  f.client(1);
//     f.kill('aggregator', 'SIGKILL');  await f.aggregator();     // again at the same addresses
//     f.end();                                                    // leaves no process and no file
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { must, until } from './browser.mjs';

const sefl = process.env.SEFL || path.resolve('../../build/dev/sefl');
const read = (file) => {
    try {
        return fs.readFileSync(file, 'utf8').trim();
    } catch {
        return '';
    }
};

// A free address for a server that starts again there: below the ports that the system gives to callers.
const address = async () => {
    for (;;) {
        const port = 10000 + Math.floor(Math.random() * 22000),
            probe = net.createServer();
        const free = await new Promise((answer) => {
            probe.once('error', () => answer(false));
            probe.listen(port, '127.0.0.1', () => probe.close(() => answer(true)));
        });
        if (free) return `127.0.0.1:${port}`;
    }
};

export class Federation {
    constructor(options) {
        this.scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'sefl-federation-'));
        this.folder = path.join(this.scratch, 'trial');
        this.running = new Map();
        this.at = {};
        const made = spawnSync(sefl, ['provision', this.folder, '--port-base', '0', ...options], {
            encoding: 'utf8',
        });
        must(made.status === 0, `sefl provision: ${made.stderr}`);
        process.on('exit', () => this.end());
    }

    start(name, args) {
        const log = fs.openSync(path.join(this.scratch, `${name}.log`), 'a');
        const child = spawn(sefl, args, { stdio: ['ignore', log, log] });
        fs.closeSync(log);
        child.on('exit', () => {
            if (this.running.get(name) === child) this.running.delete(name);
        });
        this.running.set(name, child);
    }

    // A server: later starts use the ports of the first.
    async server(role, args) {
        const dir = path.join(this.folder, role),
            mine = (this.at[role] ||= { listen: await address(), page: await address() });
        fs.rmSync(path.join(dir, 'ready'), { force: true });
        await until(`the old ${role} has ended`, () => !this.running.has(role));
        this.start(role, [
            role,
            '--config',
            path.join(dir, `${role}.yml`),
            '--listen',
            mine.listen,
            '--page',
            mine.page,
            ...args,
        ]);
        mine.listen = await until(`${role} is ready`, () => {
            must(this.running.has(role), `${role} ended: ${this.log(role)}`);
            return read(path.join(dir, 'ready'));
        });
        mine.url = read(path.join(dir, 'state/page.url'));
        mine.page = new URL(mine.url).host;
    }
    csp(...args) {
        return this.server('csp', ['--stay', ...args]);
    }
    aggregator(...args) {
        return this.server('aggregator', ['--csp', this.at.csp.listen, ...args]);
    }

    client(n) {
        const name = `client-${String(n).padStart(2, '0')}`;
        this.start(name, [
            'client',
            '--config',
            path.join(this.folder, 'clients', name, 'client.yml'),
            '--server',
            this.at.aggregator.listen,
        ]);
    }

    kill(name, signal) {
        this.running.get(name)?.kill(signal);
    }
    log(name) {
        return read(path.join(this.scratch, `${name}.log`))
            .split('\n')
            .slice(-15)
            .join('\n');
    }
    end() {
        for (const child of this.running.values()) child.kill('SIGKILL');
        this.running.clear();
        fs.rmSync(this.scratch, { recursive: true, force: true });
    }
}
