// Loaded before spear-run: ends its process by SIGKILL after write number KILL_AFTER to the journal KILL_JOURNAL, or in
// the middle of it where KILL_HALF is set. A write is a block: between its records nobody can be killed.
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

fs.writeSync = ((fd: number, bytes: Buffer, at: number = 0) => {
  if (!isJournal(fd)) return writeSync(fd, bytes, at);
  const isLast = ++writes === Number(after);
  const written = writeSync(fd, bytes, at, isLast && half ? Math.ceil((bytes.byteLength - at) / 2) : undefined);
  return isLast ? die() : written;
}) as typeof fs.writeSync;
syncBuiltinESMExports();
