// What the browser tests share: Debian's Chromium, a page whose every fault fails the test, axe-core, screenshots.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
export const out = process.env.SEFL_BROWSER_OUT || 'build/browser';
fs.mkdirSync(out, { recursive: true });

export const must = (yes, what) => {
    if (!yes) throw new Error(what);
};
export async function until(what, test, limit = 60000) {
    for (const end = Date.now() + limit; ;) {
        const got = await test();
        if (got) return got;
        if (Date.now() > end) throw new Error(`not within ${limit / 1000} s: ${what}`);
        await new Promise((go) => setTimeout(go, 50));
    }
}

// A browser with an empty profile. Without the sandbox, because tests may run as root.
export async function open() {
    const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'sefl-browser-'));
    const context = await chromium.launchPersistentContext(profile, {
        executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
        headless: true,
        viewport: { width: 1280, height: 900 },
        args: [
            '--no-sandbox',
            '--disable-gpu',
            '--disable-quic',
            '--no-first-run',
            '--disable-background-networking',
            '--disable-component-update',
            '--disable-sync',
        ],
    });
    return {
        context,
        close: async () => {
            await context.close();
            fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
        },
    };
}

// A page that remembers its console errors and where its requests went. Failed requests while a server is down are
// no faults of the page: `quiet` is true during that time.
export async function visit(context, url) {
    const page = await context.newPage(),
        origin = new URL(url).origin;
    page.faults = [];
    page.quiet = false;
    page.on('console', (m) => {
        if (m.type() === 'error' && !(page.quiet && /Failed to load|net::ERR/.test(m.text())))
            page.faults.push(`console: ${m.text()}`);
    });
    page.on('pageerror', (e) => page.faults.push(`script: ${e.stack}`));
    page.on('request', (r) => {
        const own = origin === 'null' ? r.url() === url : new URL(r.url()).origin === origin; // a file: itself alone
        if (!own && !r.url().startsWith('data:'))
            page.faults.push(`request to ${r.url()}`);
    });
    await page.goto(url, { waitUntil: 'load' });
    return page;
}
export function clean(page, when) {
    must(page.faults.length === 0, `${when}: ${page.faults.join('; ')}`);
}

// axe-core runs through the debugger, so the page's own policy needs no exception for it.
export async function accessible(page, when) {
    await page.evaluate(`window.axe || (() => { ${axe} })()`);
    const { violations } = await page.evaluate(() =>
        window.axe.run(document, { resultTypes: ['violations'] }),
    );
    must(
        violations.length === 0,
        `axe-core, ${when}: ` +
            violations
                .map(
                    (v) =>
                        `${v.id}: ${v.help}\n    ${v.nodes
                            .slice(0, 4)
                            .map((n) => `${n.target}: ${n.failureSummary}`)
                            .join('\n    ')}`,
                )
                .join('\n  '),
    );
}

export async function look(page, name, { theme, width = 1280, height = 900, full = true }) {
    await page.setViewportSize({ width, height });
    await page.selectOption('#theme', theme);
    await page.waitForTimeout(350);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    must(wide <= width, `${name}: ${wide} px of content on a screen of ${width} px`);
    await page.screenshot({ path: path.join(out, `${name}.png`), fullPage: full });
    await accessible(page, `${name} ${theme} ${width} px`);
}
