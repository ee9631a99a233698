import { spawn } from 'node:child_process';
import { at, type Behaviour, before, honest } from './behaviour.ts';
import { flood } from './flood.ts';

const stubborn = ['-c', 'trap "" TERM HUP; while :; do sleep 1; done'];
let isPrepared = false;

/** Done once, at the first request. */
const first = (act: () => void): Behaviour =>
  before(() => {
    if (!isPrepared) act();
    isPrepared = true;
  });

/** Behaviours of a process. */
export const stdioBehaviours: Readonly<Record<string, Behaviour>> = {
  'closes its stdout': at('tools/call', (_, wire) => {
    setInterval(() => {}, 1_000);
    return wire.close();
  }),
  'ignores SIGTERM and the end of its stdin': first(() => {
    for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT'] as const) process.on(signal, () => {});
    setInterval(() => {}, 1_000);
  }),
  'starts a child that holds its stdout': first(() => {
    spawn('/bin/sh', stubborn, { stdio: ['ignore', 'inherit', 'inherit'] }).unref();
  }),
  'starts a child in a session of its own, and dies': at('tools/call', (_, wire) => {
    spawn('/bin/sh', stubborn, { stdio: 'ignore', detached: true }).unref();
    return wire.die();
  }),
  'floods its stderr': first(() =>
    flood(process.stderr, () => process.stderr.write(`${'\u001b[31mnoise '.repeat(50)}\n`)),
  ),
  'stops reading': at('tools/call', (request, wire) => {
    process.stdin.pause();
    setInterval(() => {}, 1_000);
    return honest(request, wire);
  }),
  'a line without an end': at('tools/call', (_, wire) => {
    wire.forEver(() => wire.raw('x'.repeat(65_536)));
    return 'open';
  }),
  'ends with a code and last words': at('tools/call', () => {
    process.stderr.write(`\u001b[2J\u202elast words ${'w'.repeat(100_000)}\n`, () => process.exit(7));
    return 'open';
  }),
};
