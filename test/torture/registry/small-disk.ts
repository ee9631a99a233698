import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** What may be given limits of its own instead. */
interface Limited {
  readonly pid: number | undefined;
  launcher: readonly string[];
}

/** A disk that can be full. */
export interface SmallDisk {
  /** How it is made, for the table. */
  readonly kind: string;
  readonly directory: string;
  /** Leaves about so much room. */
  fill(lives: Limited, leaveBytes: number): void;
  empty(lives: Limited): void;
  close(): void;
}

const DISK_BYTES = 48 * 1024 * 1024;
const BLOCK_BYTES = 64 * 1024;
const PREFIX = 'spear-torture-disk-';

/** A file system in memory where one can be mounted, which takes root; else a limit of the process. */
export function openSmallDisk(bytes = DISK_BYTES): SmallDisk {
  unmountForgotten();
  const directory = join(tmpdir(), `${PREFIX}${process.pid}`);
  mkdirSync(directory, { mode: 0o700 });
  try {
    const options = ['-t', 'tmpfs', '-o', `size=${bytes},mode=700`, 'tmpfs', directory];
    execFileSync('mount', options, { stdio: 'ignore' });
  } catch {
    rmSync(directory, { recursive: true });
    return limitedProcess();
  }
  return mountedDisk(directory);
}

function mountedDisk(directory: string): SmallDisk {
  const data = join(directory, 'data');
  mkdirSync(data, { mode: 0o700 });
  const ballast = join(directory, 'ballast');
  return {
    kind: 'tmpfs',
    directory: data,
    fill: (_, leaveBytes) => {
      const file = openSync(ballast, 'a');
      const block = Buffer.alloc(BLOCK_BYTES);
      let bytes = 0;
      try {
        for (;;) bytes += writeSync(file, block);
      } catch {
        ftruncateSync(file, Math.max(0, bytes - leaveBytes));
      } finally {
        closeSync(file);
      }
    },
    empty: () => rmSync(ballast, { force: true }),
    close: () => {
      execFileSync('umount', ['--lazy', directory]);
      rmSync(directory, { recursive: true });
    },
  };
}

/** Every file may grow to so much and no further; what is rewritten below that still works. */
function limitedProcess(): SmallDisk {
  const directory = mkdtempSync(join(tmpdir(), 'spear-torture-'));
  return {
    kind: 'NO tmpfs: RLIMIT_FSIZE instead',
    directory,
    fill: (lives, leaveBytes) => {
      const limit = `--fsize=${leaveBytes}:unlimited`;
      execFileSync('prlimit', ['--pid', String(lives.pid), limit]);
      lives.launcher = ['prlimit', limit];
    },
    empty: (lives) => {
      execFileSync('prlimit', ['--pid', String(lives.pid), '--fsize=unlimited:unlimited']);
      lives.launcher = [];
    },
    close: () => rmSync(directory, { recursive: true, force: true }),
  };
}

/** Of runs that were killed. */
function unmountForgotten(): void {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(PREFIX))) {
    if (existsSync(`/proc/${name.slice(PREFIX.length)}`)) continue;
    try {
      execFileSync('umount', ['--lazy', join(tmpdir(), name)], { stdio: 'ignore' });
      rmSync(join(tmpdir(), name), { recursive: true });
    } catch {
      // of another user
    }
  }
}
