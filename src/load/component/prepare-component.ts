import { ModuleError } from '../../abi/guest-module.ts';
import type { Limits } from '../../protocol/limits.ts';
import { writeBounds } from '../bound-memory.ts';
import { type CompileHost, compileOnce } from './compile-once.ts';
import type { PreparedComponent } from './component-stages.ts';
import { shareLimits } from './memory-share.ts';

/** From the bytes of a component to what may run under the limits of a task. */
export async function prepareComponent(
  bytes: Uint8Array,
  limits: Limits,
  host: CompileHost,
): Promise<PreparedComponent> {
  const compiled = await compileOnce(bytes, limits.transpile_ms, host);
  const { glue, imports, entry, lane, origin } = compiled;
  const bounds = shareLimits(compiled, limits);
  const modules = [...compiled.coreModules].map(
    async ([name, module]) => [name, await engineCompile(writeBounds(module, bounds))] as const,
  );
  return {
    kind: 'component',
    glue,
    coreModules: new Map(await Promise.all(modules)),
    imports,
    entry,
    lane,
    origin,
  };
}

async function engineCompile(bytes: Uint8Array): Promise<WebAssembly.Module> {
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    const reason = (error as Error).message.replace(/^WebAssembly\.compile\(\): /, '');
    throw new ModuleError(`a core module of it does not compile: ${reason}`);
  }
}
