import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { untold, type Waiting } from '../base/waiting.ts';
import { stateDirectory } from '../base/xdg-directories.ts';
import type { CompiledHostConfig } from '../config/host/host-config.ts';
import { processEnvironment } from '../config/process-environment.ts';
import { egressOf } from '../pool/egress.ts';
import { McpPool, type PoolDeps } from '../pool/pool.ts';
import { type PoolOptions, stdioPolicyOf } from '../pool/pool-options.ts';
import { createSecretSource } from '../secrets/secret-source.ts';
import type { RunRegistry } from './open-registry.ts';

export interface RunPool {
  readonly pool: McpPool;
  /** What records may refer to on this node. */
  readonly secrets: PoolDeps['secrets'];
  /** Ends every server that was started. */
  close(): Promise<void>;
}

/** The pool of one command: connects as the records of its registry say, within what this node lets them use. */
export async function openRunPool(
  references: RunRegistry['references'],
  host: CompiledHostConfig,
  log: NonNullable<PoolDeps['log']>,
  limits: NonNullable<PoolOptions['limits']> = {},
  waiting: Waiting = untold,
): Promise<RunPool> {
  const state = await openState();
  const secrets = createSecretSource({ ...references, backendKeyNames: host.keyVariables }, processEnvironment);
  const path = processEnvironment.PATH;
  const egress = egressOf(host.egress, references.mode);
  const stdio = stdioPolicyOf(host.mcp.stdio, references.mode);
  const options = { stateDir: state.directory, ...(path ? { path } : {}), egress, stdio, limits };
  const pool = new McpPool(options, { secrets, log, waiting });
  return {
    pool,
    secrets,
    close: async () => {
      await pool.close();
      await state.release();
    },
  };
}

/** Homes of stdio servers live on between runs, so that what they download is downloaded once. */
async function openState(): Promise<{ directory: string; release(): Promise<void> }> {
  const own = stateDirectory(processEnvironment);
  if (own !== null) return { directory: own, release: async () => {} };
  const directory = await mkdtemp(join(tmpdir(), 'spear-'));
  return { directory, release: () => rm(directory, { recursive: true, force: true }) };
}
