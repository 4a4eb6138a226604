// Numbers, times and names as a person reads them, and two makers of elements.
export const known = (x) => typeof x === 'number' && Number.isFinite(x);

export const count = (x) => (known(x) ? Math.round(x).toLocaleString('en') : 'unknown');
export const plural = (n, one, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`;

// three or four digits that matter: 0.0123, 1.25, 34.1, 420.7, 12,345; `digits` asks for more after the point
export function number(x, digits = 0) {
    if (!known(x)) return 'unknown';
    const size = Math.abs(x);
    if (size >= 1e7) return x.toExponential(1).replace('e+', 'e'); // a model that has diverged
    if (size >= 10000 || (Number.isInteger(x) && size < 10000)) return Math.round(x).toLocaleString('en');
    if (size >= 100) return x.toFixed(Math.max(1, digits));
    if (size >= 0.1) return x.toFixed(Math.max(size >= 10 ? 1 : 2, digits));
    return x === 0 ? '0' : x.toPrecision(Math.max(2, digits));
}

// as number(), but rounded up: an epsilon is never shown smaller than it is
export function epsilon(x) {
    if (!known(x) || x <= 0) return number(x);
    const unit = 10 ** (Math.floor(Math.log10(x)) - (x < 1 ? 1 : 2));
    return number(Number((Math.ceil((x / unit) * (1 - 1e-12)) * unit).toPrecision(6)));
}

export function bytes(x, digits = 0) {
    if (!known(x)) return 'unknown';
    const units = ['B', 'kB', 'MB', 'GB', 'TB'];
    let i = 0;
    while (x >= 999.5 && i < units.length - 1) {
        x /= 1000;
        i++;
    }
    return `${i === 0 || (x >= 99.95 && !digits) ? Math.round(x) : x.toFixed(Math.max(1, digits))}\u00a0${units[i]}`;
}

export function seconds(x, digits = 0) {
    // a number never stands apart from its unit
    if (!known(x)) return 'unknown';
    if (x < 0.0995 && x > 0) return `${Number((x * 1000).toFixed(digits))}\u00a0ms`;
    if (x < 9.95) return `${x.toFixed(Math.max(1, digits))}\u00a0s`;
    if (x < 119.5) return `${x.toFixed(digits)}\u00a0s`;
    if (x < 599.5) return `${Math.floor(Math.round(x) / 60)}\u00a0min ${Math.round(x) % 60}\u00a0s`;
    const minutes = Math.round(x / 60),
        hours = Math.floor(minutes / 60);
    if (minutes < 120) return `${minutes}\u00a0min`;
    if (hours < 48) return `${hours}\u00a0h ${minutes % 60}\u00a0min`;
    return `${Math.floor(hours / 24)}\u00a0days ${hours % 24}\u00a0h`;
}

// an estimate: no seconds beyond two minutes
export const about = (x) => (x < 119.5 ? left(x) : x < 599.5 ? `${Math.round(x / 60)}\u00a0min` : seconds(x));
// whole seconds of a countdown
export const left = (x) => (x < 119.5 ? `${Math.max(0, Math.round(x))}\u00a0s` : seconds(x));
export const small = (x) => (x < 0.001 ? x.toExponential().replace('.0', '') : String(x)); // a delta: 1e-6
export const compact = (x) =>
    x < 1000 ? String(x) : `${(x / 1000).toFixed(x < 9950 ? 1 : 0).replace('.0', '')}k`;

// the time of day, with the date if it is another day
export function clock(t, now = Date.now() / 1000) {
    if (!known(t)) return 'unknown';
    const d = new Date(t * 1000);
    const time = d.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
    if (d.toDateString() === new Date(now * 1000).toDateString()) return time;
    return `${d.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })}, ${time}`;
}

// a list of words: "a, b and c"
export const listed = (words) =>
    words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words[words.length - 1]}`;

function fill(e, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
        if (value === false || value === null || value === undefined) continue;
        if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
        else e.setAttribute(name, value === true ? '' : value);
    }
    e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
    return e;
}
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) =>
    fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

export const $ = (id) => document.getElementById(id);
export const show = (id, yes) => {
    $(id).hidden = !yes;
    return yes;
};
// These change the page only where it differs, so that they disturb neither a selection nor a screen reader.
export function say(e, text) {
    if (e.textContent !== text) e.textContent = text;
}
export function swap(e, ...children) {
    const next = e.cloneNode(false);
    next.append(...children.flat().filter(Boolean));
    if (!next.isEqualNode(e)) e.replaceChildren(...next.childNodes);
}
