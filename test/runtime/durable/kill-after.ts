// Loaded before spear-run: ends its process by SIGKILL after write number KILL_AFTER to the journal KILL_JOURNAL, or in
// the middle of it where KILL_HALF is set. A single write is complete or torn: a process cannot be killed between its records.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const { writeSync } = fs;
const { KILL_JOURNAL: journal = '', KILL_AFTER: after, KILL_HALF: half } = process.env;
let writes = 0;

function die(): never {
  process.kill(process.pid, 'SIGKILL');
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

const isJournal = (fd: number) => fs.fstatSync(fd).ino === fs.statSync(journal, { throwIfNoEntry: false })?.ino;

fs.writeSync = ((fd: number, content: string | Uint8Array, ...rest: [number?]) => {
  if (!isJournal(fd)) return writeSync(fd, content as Uint8Array, ...rest);
  const bytes = Buffer.from(content as string).subarray(rest[0] ?? 0);
  const isLast = ++writes === Number(after);
  const written = writeSync(fd, isLast && half ? bytes.subarray(0, Math.ceil(bytes.byteLength / 2)) : bytes);
  return isLast ? die() : written;
}) as typeof fs.writeSync;
syncBuiltinESMExports();
