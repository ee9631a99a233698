import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';

const PRIVATE_FILE = 0o600;
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/**
 * Writes a stream to a file for its owner alone; an existing file is replaced when all of the stream is on disk. Each
 * call has its own partial file: a second command with the same target must not truncate that of the first.
 */
export async function writeWhole(target: string, source: AsyncIterable<Uint8Array>): Promise<void> {
  const partial = `${target}.${randomUUID()}.partial`;
  const handle = await open(partial, 'wx', PRIVATE_FILE);
  const interrupted = (signal: NodeJS.Signals) => {
    rmSync(partial, { force: true });
    process.kill(process.pid, signal); // no listener is left: it ends the process
  };
  for (const signal of SIGNALS) process.once(signal, interrupted);
  try {
    try {
      await handle.writeFile(source); // unlike write, it continues after a short write
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(partial, target);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  } finally {
    for (const signal of SIGNALS) process.off(signal, interrupted);
  }
}
