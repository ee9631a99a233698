// Loaded into a node by --import: on SIGUSR2 it collects garbage and writes the bytes of live objects to HEAP_FILE.
import { renameSync, writeFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';

const file = process.env.HEAP_FILE;
if (isMainThread && file !== undefined) {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  process.on('SIGUSR2', () => {
    collect();
    writeFileSync(`${file}.partial`, String(process.memoryUsage().heapUsed));
    renameSync(`${file}.partial`, file);
  });
}
