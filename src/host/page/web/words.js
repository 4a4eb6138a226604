// What a state means, in sentences: what happens now, and what an operator should know about it.
import { about, known, number, epsilon, count, plural, seconds, left, clock, listed } from './format.js';

export const ROLES = {
    aggregator: 'Aggregation server',
    csp: 'Cryptography service provider',
    simulation: 'Simulation',
};

const roundOf = (st) => {
    const n = st.round?.number ?? st.last?.round;
    if (!known(n)) return 'The round';
    return known(st.task?.rounds) ? `Round ${n} of ${count(st.task.rounds)}` : `Round ${n}`;
};

const names = ({ sites = [], all = 0 } = {}) => {
    const out = sites.map((s) => s.name);
    if (all > out.length)
        out.push(
            out.length ? `${count(all - out.length)} more` : `${plural(all, 'site')} not seen yet`,
        );
    return listed(out);
};

// Whom the open round waits for, or null. A site is missing if it has missed the last round too, or has not asked for
// this one; and after a minute every site is.
export function waiting(st, now) {
    const { waits_for: w, opened_at: from, deadline_at: until } = st.round || {};
    if (st.phase !== 'collecting' || !w?.all) return null;
    const open = known(from) ? now - from : 0;
    const missing =
        open > 60 || w.sites.some((s) => s.missed > 0) || (open > 5 && !w.sites.every((s) => s.asked));
    const by = known(until) ? ` until ${clock(until, now)}` : '';
    return { who: names(w), all: w.all, missing, long: open > 5, by };
}

function collecting(st, now) {
    const { arrived, need, deadline_at: until } = st.round || {};
    const waits = waiting(st, now);
    let text = `${roundOf(st)} collects updates`;
    if (known(arrived) && known(need))
        text +=
            arrived < need
                ? `: ${count(arrived)} of at least ${count(need)} have arrived`
                : `: ${count(arrived)} have arrived, at least ${count(need)} are needed`;
    else if (known(arrived)) text += `: ${count(arrived)} have arrived`;
    if (known(until)) text += until > now ? `, ${left(until - now)} left` : ', the deadline has passed';
    return waits?.long || waits?.missing ? `${text}. It waits for ${waits.who}.` : `${text}.`;
}

const phases = {
    'no task': () => 'The server has no task and waits for one.',
    starting: () => 'The server starts and connects to the other server.',
    signing: (st) => `${roundOf(st)} begins: the two servers sign its header.`,
    collecting,
    freezing: (st) => `${roundOf(st)} closes: the servers agree on the updates that count.`,
    revealing: (st) => `${roundOf(st)} reveals the noisy sum of its updates.`,
    releasing: (st) => `${roundOf(st)} releases the next model.`,
    skipping: (st) => `${roundOf(st)} is skipped. Nothing of it is revealed or charged.`,
    done: (st) =>
        known(st.totals?.released)
            ? `The task is over: it released ${plural(st.totals.released, 'model')} ` +
              `in ${plural(st.totals.rounds, 'round')}.`
            : 'The task is over.',
    report: (st) =>
        `The run released ${plural(st.totals.released, 'model')} in ${plural(st.totals.rounds, 'round')}` +
        (known(st.task?.rounds) ? `; its task has ${plural(st.task.rounds, 'round')}.` : '.'),
    waiting: () => 'The server waits for the aggregation server.',
    new: (st) => `${roundOf(st)} has not begun.`,
    signed: (st) => `${roundOf(st)} runs: both servers have signed its header.`,
    revealed: (st) => `${roundOf(st)} is charged, and its noisy sum is revealed to the aggregation server.`,
    skipped: (st) => `${roundOf(st)} was skipped. Nothing of it was revealed or charged.`,
};

export function sentence(st, now) {
    if (st.runs) return `Comparison of ${plural(st.runs, 'run')}`;
    if (st.paused) return 'The task is paused: no round begins until the operator resumes it.';
    if (phases[st.phase]) return phases[st.phase](st, now);
    if (st.role === 'simulation') return `${roundOf(st)} runs.`;
    return st.phase ? `${roundOf(st)}: ${st.phase}.` : 'The server does not say what it does now.';
}

const isOver = (st) => st.phase === 'done' || st.phase === 'report';
// the rounds that the task plans beyond those that are over, whether or not the budget allows them
const planned = (st) => {
    const over = st.last?.round ?? st.totals?.rounds;
    return known(st.task?.rounds) && known(over) ? st.task.rounds - over : st.end?.rounds_left;
};

// Everything that is not as it should be, worst first: [kind, what, what it means]
export function problems(st, now) {
    const out = [],
        over = isOver(st);
    if (st.ledgers?.agree === false)
        out.push([
            'bad',
            'The two ledgers differ.',
            'Stop the task and compare the ledgers of both servers before another round is charged.',
        ]);
    if (known(st.database_away_since))
        out.push([
            'bad',
            `The database has not answered since ${clock(st.database_away_since, now)}.`,
            'Uploads are refused for now, and clients try again. Rounds go on when it is back. What you see here is older.',
        ]);
    else if (st.csp?.connected === false && !over)
        out.push([
            'bad',
            `The other server is not connected${known(st.csp.since) ? ` since ${clock(st.csp.since, now)}` : ''}.`,
            `No round begins or ends without it.${st.csp.last_error ? ` Last error: ${st.csp.last_error}` : ''}`,
        ]);
    else if (st.healthy === false)
        out.push([
            'bad',
            st.phase === 'revealing'
                ? 'The reveal of this round failed, and the server tries again.'
                : 'The server reports that it is not healthy.',
            st.why ? `${st.why}.` : 'Its log says why.',
        ]);
    if (st.last?.blocked)
        out.push([
            'bad',
            `Round ${st.last.round} was blocked.`,
            'Its sum failed the release check, so the model stays as it was. Three blocked rounds in a row end the task.',
        ]);
    if (st.last?.skipped)
        out.push([
            'weak',
            `Round ${st.last.round} was skipped.`,
            st.last.dropped_by_operator
                ? 'The operator dropped it. Nothing of it was revealed.'
                : 'No sum was revealed, in most cases because too few updates arrived. ' +
                  'Ten such rounds in a row end the task.',
        ]);
    const { arrived, need, opened_at: from, deadline_at: until } = st.round || {};
    if (
        st.phase === 'collecting' &&
        known(until) &&
        known(from) &&
        arrived < need &&
        until - now < 0.25 * (until - from)
    )
        out.push([
            'weak',
            `${plural(need - arrived, 'more update')} must arrive ${until > now ? `within ${left(until - now)}` : 'now'}.`,
            'Otherwise the server extends or skips the round.',
        ]);
    if (st.supply && st.supply.rounds_ready === 0 && st.supply.making === false && !over)
        out.push([
            'weak',
            'No noise is ready.',
            'The next round waits until the servers have made shares of its noise.',
        ]);
    const { rounds_to_target: enough } = st.privacy || {};
    if (st.privacy?.claimed && known(enough) && enough < planned(st) && !over)
        out.push([
            'weak',
            `The privacy budget ends ${plural(planned(st) - enough, 'round')} before the task does.`,
            `After ${plural(enough, 'more round')} the servers end the task.`,
        ]);
    if (!over) out.push(...absences(st, now));
    return out.sort((a, b) => (a[0] === b[0] ? 0 : a[0] === 'bad' ? -1 : 1));
}

const whyLeft = (s) =>
    s.revoked ? `${s.name} is revoked` : `${s.name} has missed ${plural(s.missed, 'round')}`;

// What missing sites cost, and what to do about them.
function absences(st, now) {
    const out = [],
        { left_out: gone, arrived, need, deadline_at: until } = st.round || {},
        waits = waiting(st, now);
    if (waits && known(arrived) && known(need) && arrived + waits.all < need)
        out.push([
            'bad',
            `Only ${plural(arrived + waits.all, 'site')} of the ${count(need)} that a round needs can send an update.`,
            `Bring a site back${known(until) ? ` before ${clock(until, now)}` : ''}; otherwise the round is skipped. ` +
                'Ten skipped rounds in a row end the task.',
        ]);
    if (waits?.missing)
        out.push([
            'weak',
            `The round waits for ${waits.who}${waits.by}.`,
            known(need) && arrived >= need
                ? st.ending
                    ? 'Then it closes with the updates it has, and the task ends. To drop it now: sefl task end --now.'
                    : 'Then it closes with the updates it has. To close it now: sefl task close.'
                : 'It still needs updates: otherwise the server extends or skips it.',
        ]);
    if (gone?.all && !gone.sites.every((s) => s.revoked))
        out.push([
            'weak',
            `No round waits for ${names(gone)}.`,
            `${listed(gone.sites.map(whyLeft))}${gone.sites.length ? '. ' : ''}` +
                (gone.sites.some((s) => s.asked && !s.revoked)
                    ? 'A site that asks for news and sends no update counts again after its next update: see its log.'
                    : 'A site that is missing counts again as soon as it asks for news.'),
        ]);
    return out;
}

export function stateTile(st, found, now) {
    const bad = found.find((p) => p[0] === 'bad');
    if (bad) return ['bad', 'Needs you', bad[1]];
    if (st.paused) return ['weak', 'Paused', 'The operator paused the task.'];
    if (found.length) return ['weak', 'Watch', found[0][1]];
    if (isOver(st)) return ['good', 'Done', 'The task is over.'];
    const waits = waiting(st, now);
    if (waits?.long) return ['', 'Waiting', `For ${waits.who}${waits.by}.`];
    const { waits_for: w, opened_at: from, deadline_at: until } = st.round || {};
    if (st.phase === 'collecting' && !w && known(from) && now - from > 5) // it knows no sites
        return ['', 'Waiting', `For updates${known(until) ? ` until ${clock(until, now)}` : ''}.`];
    const why = (st.round?.left_out?.sites || []).map(whyLeft);
    if (st.csp?.connected) why.push('both servers are connected');
    if (st.ledgers?.agree) why.push('the ledgers agree');
    if (known(st.supply?.rounds_ready) && st.supply.rounds_ready > 0)
        why.push(`noise is ready for ${plural(st.supply.rounds_ready, 'round')}`);
    const text = listed(why);
    return ['good', 'Fine', text ? `${text[0].toUpperCase()}${text.slice(1)}.` : 'Nothing needs attention.'];
}

// What protects the updates of a run that claims no differential privacy.
export function hiding(st) {
    if (st.role !== 'simulation')
        return (
            'The encryption still hides each update from both servers, but the released models may ' +
            "reveal parts of the clients' text."
        );
    const how =
        st.crypto === 'full'
            ? 'It encrypts and adds the updates as two servers would (crypto: full), but in one process that sees them all.'
            : 'It encrypts nothing (crypto: clear): this process sees every update.';
    return `This is a simulation. ${how} The released models may reveal parts of the text.`;
}

export function timeTile(st, now) {
    const total = st.task?.rounds,
        done = st.totals?.rounds ?? st.last?.round ?? (st.round?.number ?? 1) - 1;
    const share = known(total) && total > 0 ? done / total : undefined;
    if (isOver(st))
        return [
            '',
            'None',
            known(st.totals?.seconds)
                ? `${plural(done, 'round')} took ${seconds(st.totals.seconds)}.`
                : 'No round is left.',
            1,
        ];
    const { rounds_left: rounds = known(total) ? total - done : undefined } = st.end || {};
    let { seconds_left: secs } = st.end || {};
    const words = known(rounds) ? `${plural(rounds, 'round')} to go` : '';
    if (st.paused) return ['', 'Paused', words ? `${words}.` : '', share];
    if (st.csp?.connected === false)
        return ['', 'Not known', `${words ? `${words}; ` : ''}the other server is not connected.`, share];
    const until = st.phase === 'collecting' ? st.round?.deadline_at : undefined;
    if (known(secs) && known(until)) secs = Math.max(secs, until - now);
    if (!known(secs))
        return known(rounds)
            ? ['', plural(rounds, 'round'), known(total) ? `of ${count(total)} to go.` : 'to go.', share]
            : ['', 'Not known yet', 'The first rounds tell.', share];
    return [
        '',
        `About ${about(Math.max(1, secs))}`,
        `${words ? `${words}; ` : ''}ends around ${clock(now + secs, now)}.`,
        share,
    ];
}

// True if the budget ends the task before its last round. (A task whose noise fits its budget ends at 100 %.)
export const tooSoon = (st) => st.privacy?.rounds_to_target < planned(st) && !isOver(st);

export function privacyTile(st, about) {
    const p = st.privacy;
    if (!p) return null;
    if (!p.claimed)
        return [
            about?.level || 'weak',
            'None claimed',
            about ? `${about.head}.` : 'The noise is too small for a guarantee.',
        ];
    const spent = Math.max(p.epsilon_server ?? 0, p.epsilon_others ?? 0);
    const target = known(p.epsilon_target) ? ` of ${number(p.epsilon_target)}` : '';
    const lasts = known(p.rounds_to_target) && !isOver(st);
    return [
        tooSoon(st) ? 'weak' : '',
        [`ε\u00a0${epsilon(spent)}`, target],
        lasts
            ? `The budget lasts for ${plural(p.rounds_to_target, 'more round')}.`
            : 'Spent so far, at most.',
        known(p.epsilon_target) ? spent / p.epsilon_target : undefined,
    ];
}

export function budgetSentence(st) {
    const enough = st.privacy.rounds_to_target,
        rest = planned(st);
    if (st.phase === 'done') return 'The task is over; no further round spends anything.';
    if (!known(enough)) return 'No round begins that would pass the budget.';
    const lasts = `At this pace the budget lasts for ${plural(enough, 'more round')}`;
    if (!known(rest)) return `${lasts}.`;
    if (!tooSoon(st)) return `${lasts}. The task has ${plural(rest, 'round')} to go, so the budget suffices.`;
    return (
        `${lasts}, and the task has ${plural(rest, 'round')} to go: ` +
        `the servers will end it ${plural(rest - enough, 'round')} early.`
    );
}

// Who is missing from a round: [[kind, number], ...] of what is known. `line` is the round's, `counts` are those of the
// grid; `expected` is the number of updates of a round that loses nobody, if the task has one. Clients that never
// fetched the model are 'not seen'. The tile, the grid's row and the chart use this one definition.
export function missingFrom(line = {}, counts = {}, expected) {
    const out = ['late', 'dropped', 'refused']
        .map((k) => [k, counts[k] ?? line[k]])
        .filter(([, n]) => known(n));
    const arrived = counts.arrived ?? (line.skipped ? undefined : line.clients);
    if (known(expected) && known(arrived)) {
        const seen = out.reduce((t, [, n]) => t + n, arrived);
        out.push(['not seen', Math.max(0, expected - seen)]);
    }
    return out;
}
export const total = (parts) => parts.reduce((t, [, n]) => t + n, 0);

// `people` are [name, kind, reason] of those who are missing from the latest round, the worst first.
export function missingTile(st, people, counts = {}, expected) {
    const l = st.last;
    if (st.role === 'csp' || !l) return null;
    const parts = missingFrom(l, counts, expected);
    if (!parts.length) return null;
    if (l.dropped_by_operator) return ['', 'Not counted', `The operator dropped round ${l.round}.`];
    const all = total(parts);
    if (!all)
        return l.skipped
            ? ['weak', 'Too few', `updates arrived in round ${l.round}, so it was skipped.`]
            : [
                  'good',
                  'Nobody',
                  `in round ${l.round}${known(l.clients) ? `, which has ${plural(l.clients, 'update')}` : ''}.`,
              ];
    const named = people
        .slice(0, 3)
        .map(([name, kind, reason]) => `${name} ${kind}${reason ? ` (${reason})` : ''}`);
    const who = named.length
        ? named
        : parts.filter(([, n]) => n > 0).map(([name, n]) => `${count(n)} ${name}`);
    if (named.length && all > named.length) who.push(`${count(all - named.length)} more`);
    const arrived = counts.arrived ?? l.clients;
    const of = known(arrived) ? ` of ${count(arrived + all)}` : '';
    return ['weak', [count(all), of], `in round ${l.round}: ${listed(who)}.`];
}
