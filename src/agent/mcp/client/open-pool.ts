import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ignoreWaits, type Waiting } from '../../../base/listeners.ts';
import { stateDirectory } from '../../../config/directories.ts';
import type { CompiledEgress } from '../../../config/egress.ts';
import type { StdioPolicy } from '../../../config/host/host-config.ts';
import { processEnvironment } from '../../../config/process-environment.ts';
import { egressOf } from '../../../server/egress/egress.ts';
import type { ReferencePolicy } from '../../../server/secrets/references.ts';
import { createSecretSource } from '../../../server/secrets/secret-file.ts';
import { McpPool, type PoolDeps } from './pool.ts';
import { type PoolOptions, stdioPolicyOf } from './pool-options.ts';

export interface OpenPoolOptions {
  /** Secrets and files that records may reference. */
  readonly references: ReferencePolicy;
  /** Source of referenced variables. @default the environment of this process */
  readonly variables?: Readonly<Record<string, string | undefined>>;
  readonly egress: CompiledEgress;
  /** Policy for stdio servers; null: derived from the origin of their records. */
  readonly stdio: StdioPolicy | null;
  /** Directory of the homes of stdio servers. @default this user's state directory, else a temporary one */
  readonly stateDir?: string | undefined;
  readonly limits?: NonNullable<PoolOptions['limits']>;
  /** Receives what the pool waits for. @default nothing is reported */
  readonly waiting?: Waiting | undefined;
  readonly log: NonNullable<PoolDeps['log']>;
}

export interface OpenPool {
  readonly pool: McpPool;
  readonly secrets: PoolDeps['secrets'];
  /** Directory of the homes of stdio servers. */
  readonly stateDir: string;
  /** Stops every server that was started. */
  close(): Promise<void>;
}

/** Opens the pool of a command or a program, with the limits of this node. */
export async function openPool(options: OpenPoolOptions): Promise<OpenPool> {
  const { references, variables = processEnvironment, limits = {}, waiting = ignoreWaits, log } = options;
  const state = await openState(options.stateDir);
  const secrets = createSecretSource(references, variables);
  const egress = egressOf(options.egress, references.mode);
  const stdio = stdioPolicyOf(options.stdio, references.mode);
  const path = commandPath(processEnvironment.PATH, process.cwd());
  const pool = new McpPool({ stateDir: state.directory, path, egress, stdio, limits }, { secrets, waiting, log });
  return {
    pool,
    secrets,
    stateDir: state.directory,
    close: async () => {
      await pool.close();
      await state.release();
    },
  };
}

/** PATH for server commands: like `npx`, with the `node_modules/.bin` of this and every parent directory. */
function commandPath(path: string | undefined, folder: string): string {
  const folders = path ? [path] : [];
  for (let at = folder; ; at = dirname(at)) {
    folders.push(join(at, 'node_modules', '.bin'));
    if (dirname(at) === at) return folders.join(':');
  }
}

/** Homes of stdio servers persist between runs, so that servers download their files once. */
async function openState(given: string | undefined): Promise<{ directory: string; release(): Promise<void> }> {
  const own = given ?? stateDirectory(processEnvironment);
  if (own !== null) return { directory: own, release: async () => {} };
  const directory = await mkdtemp(join(tmpdir(), 'spear-'));
  return { directory, release: () => rm(directory, { recursive: true, force: true }) };
}
