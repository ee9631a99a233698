import type { ChildProcess, SpawnOptions } from 'node:child_process';

/** What the pool needs of `child_process.spawn`. */
export type Spawn = (command: string, args: readonly string[], options: SpawnOptions) => ChildProcess;
