import { resolve } from 'node:path';
import type { CompiledHostConfig } from '../../config/host/host-config.ts';
import { UsageError } from '../usage-error.ts';
import type { RunFlags } from './flags.ts';

/** The command line has the last word on which backend answers. */
export function chooseBackend(
  host: CompiledHostConfig,
  flags: Pick<RunFlags, 'script' | 'backend' | 'taskConfig'>,
  taskBackend: string | null,
): CompiledHostConfig {
  if (flags.script !== undefined) {
    const name = 'script';
    const script = { kind: 'scripted', name, script: resolve(flags.script) } as const;
    return { ...host, backends: new Map([[name, script]]), defaultBackend: name };
  }
  const chosen = flags.backend ?? taskBackend ?? undefined;
  if (chosen !== undefined && !host.backends.has(chosen)) {
    const from = flags.backend === undefined ? `${flags.taskConfig}: backend` : '--backend';
    throw new UsageError(
      `${from}: there is no backend "${chosen}" (configured: ${[...host.backends.keys()].join(', ')})`,
    );
  }
  return { ...host, defaultBackend: chosen ?? host.defaultBackend };
}
