import { readFileSync } from 'node:fs';

/** Of a run with a dedicated thread: 5 of the thread, journal and its lock, a connection to the model. */
const PER_SLOT = 8;
/** Of the node beside its runs: connections of clients, files, the registry, MCP servers. */
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
