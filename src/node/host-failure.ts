import { readFileSync } from 'node:fs';
import { errorText, exhaustedResource, systemErrorOf } from '../base/errors.ts';
import { JournalError } from '../runtime/durable/journal-error.ts';

/** A file with this many I/O errors since the start of the node is regarded as broken. */
const MAX_IO_ERRORS = 3;
/** Maximum of counted files; the oldest count is evicted. */
const MAX_FILES = 1_000;
const EIO = 'EIO';

/** Outcome of an attempt that is retried without being counted, after a pause of the node. */
export interface HostRetry {
  readonly kind: 'again';
  readonly counts: false;
  readonly pause: true;
  readonly why: string;
  /** The file whose input/output error ended the attempt. @default none */
  readonly failedFile?: string;
}

/** System error that ended an attempt. */
export interface HostFault {
  readonly code: string | null;
  /** Null: not about a file. */
  readonly file: string | null;
  readonly message: string;
}

export function faultOf(error: unknown): HostFault {
  const { path } = error as { readonly path?: unknown };
  const file = error instanceof JournalError ? error.file : typeof path === 'string' ? path : null;
  return { code: systemErrorOf(error), file, message: errorText(error) };
}

/**
 * Retry of an attempt that an exhausted resource or a failing file ended: not counted, and the node starts no other run
 * for a while. Null: the fault is neither.
 */
export function retryOf({ code, file, message }: HostFault): HostRetry | null {
  const retry = { kind: 'again', counts: false, pause: true } as const;
  const exhausted = exhaustedResource(code);
  if (exhausted !== null) return { ...retry, why: `${exhausted}: ${message}` };
  return code === EIO && file !== null ? { ...retry, why: message, failedFile: file } : null;
}

/** Counts I/O errors of files, so that a run whose file is broken ends. */
export class FailedFiles {
  readonly #errors = new Map<string, number>();

  /** Counts one more error. True: the file has failed too often. */
  failed(file: string): boolean {
    const errors = (this.#errors.get(file) ?? 0) + 1;
    this.#errors.delete(file);
    if (errors >= MAX_IO_ERRORS) return true;
    this.#errors.set(file, errors);
    if (this.#errors.size > MAX_FILES) this.#errors.delete(this.#errors.keys().next().value ?? '');
    return false;
  }
}

export const failedFileText = (file: string, message: string): string =>
  `${file}: input/output error (EIO) ${MAX_IO_ERRORS} times: check the disk; the last error: ${message}`;

/** Descriptors of a run with a dedicated thread: 5 of the thread, journal and its lock, a connection to the model. */
const PER_SLOT = 8;
/** Descriptors of the node itself: connections of clients, files, the registry, MCP servers. */
const OF_NODE = 256;

/** Limit of open file descriptors of this process (RLIMIT_NOFILE; Node raises its soft limit to the hard one); null: unknown. */
export function descriptorLimit(): number | null {
  try {
    const soft = /^Max open files\s+(\d+)\s/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
    return soft === undefined ? null : Number(soft);
  } catch {
    return null;
  }
}

/** Why `slots` runs at once may exhaust the file descriptors, and what to do; null: the limit is high enough. */
export function descriptorProblem(limit: number | null, slots: number): string | null {
  const needed = OF_NODE + PER_SLOT * slots;
  if (limit === null || limit >= needed) return null;
  const fitting = Math.floor((limit - OF_NODE) / PER_SLOT);
  const smaller = fitting >= 1 ? `, or set node.slots to at most ${fitting}` : '';
  return `${slots} slots may need ${needed} file descriptors, and the limit (RLIMIT_NOFILE) is ${limit}: raise it (ulimit -n ${needed}, LimitNOFILE=${needed})${smaller}`;
}
