import { readFileSync, statSync } from 'node:fs';
import { ModuleError } from '../../abi/guest-module.ts';
import { errorCode } from '../../base/error-text.ts';
import { componentCacheDirectory } from '../../config/cache-directory.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { describeComponent } from '../../load/component/component-stages.ts';
import type { Prepared } from '../../load/prepare.ts';
import type { RunFlags } from './flags.ts';

/** Synchronous inside: loading node:fs/promises takes longer than reading most modules. */
export async function readModule(file: string): Promise<Uint8Array> {
  try {
    return readFileSync(file);
  } catch (error) {
    const code = errorCode(error);
    const isFolder = code === 'EISDIR' || statSync(file, { throwIfNoEntry: false })?.isDirectory();
    throw new ModuleError(
      isFolder ? 'it is a folder' : code === 'ENOENT' ? 'there is no such file' : `it cannot be read (${code})`,
    );
  }
}

/** Where compiled components are kept. */
export function componentCache({ noCache }: Pick<RunFlags, 'noCache'>): string | null {
  return noCache ? null : componentCacheDirectory(processEnvironment);
}

export function describePrepared(prepared: Prepared): string {
  if (prepared.kind === 'component') return describeComponent(prepared);
  const unknown = prepared.unknownImports.length;
  return `core module${unknown ? `, ${unknown} unknown imports` : ''}`;
}
