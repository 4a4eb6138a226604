// A federation of real processes on loopback, from a provisioned folder.
//
//     const f = new Federation(['--clients', '4', '--set', 'rounds.count=3']);
//     await f.csp();  await f.aggregator();  f.client(1);
//     f.kill('aggregator', 'SIGKILL');  await f.aggregator();     // again at the same addresses
//     f.end();                                                    // leaves no process and no file
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
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

    // A server: the system chooses its ports at the first start, and later starts use the same.
    async server(role, args) {
        const dir = path.join(this.folder, role),
            mine = (this.at[role] ||= { listen: '127.0.0.1:0', page: '127.0.0.1:0' });
        fs.rmSync(path.join(dir, 'ready'), { force: true });
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
