// A process that writes a trail and ends in the way that its first argument names: node audit-process.ts HOW FILE [COUNT [MAX_BYTES]]

import { openRunAudit } from '../../../src/cli/run/audit.ts';
import { change } from './audit-change.ts';

const [how = '', file = '', count = '100', maxBytes = '0'] = process.argv.slice(2);
const closers: (() => unknown)[] = [];
const flags = {
  audit: file,
  auditArgs: undefined,
  auditMaxBytes: Number(maxBytes),
  auditKeep: 10_000,
  dryRun: false,
  json: false,
};
const config = { file: null, args: 'redacted', maxBytes: 0, keep: 1, onFailure: 'continue', key: null } as const;
const say = (text: string) => process.stderr.write(`${text}\n`);
const trail = await openRunAudit(flags, config, 'test', closers, say);
const write = (number: number) => trail.write(`run-${process.pid}`, change(number));
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

for (let number = 0; number < Number(count); number++) {
  write(number);
  if (number % 50 === 49) await turn();
}

switch (how) {
  case 'close':
    for (const close of closers) await close();
    break;
  case 'exit':
    process.exit(7);
    break;
  case 'throw':
    throw new Error('nobody expected this');
  case 'reject':
    Promise.reject(new Error('nobody waits for this'));
    break;
  case 'signal':
    process.stdout.write('ready\n');
    process.stdin.resume(); // lives until somebody ends it
    break;
  case 'stuck':
    for (let number = Number(count); number < 2 * Number(count); number++) write(number);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); // its event loop never runs again
    break;
  case 'never':
    for (let number = Number(count); ; number++) {
      write(number);
      if (number % 10 === 9) await turn();
    }
}
