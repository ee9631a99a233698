import type { Waiting } from '../../../base/listeners.ts';
import { cutText } from '../../../base/text.ts';
import { didYouMean } from '../../../base/validation.ts';
import { type ReadTextFile, readTextFile } from '../../../config/config-file.ts';
import type { CompiledBackend, CompiledHostConfig, CompiledProxy } from '../../../config/host/host-config.ts';
import { BackendError, type ChatBackend } from '../backend.ts';
import { BackendFailures } from './failures.ts';
import type { RetryTiming } from './retry.ts';

const SHOWN_NAME_CHARS = 64;

/** How long closing may take before it is given up: nothing useful happens in a backend after that. */
const CLOSE_DEADLINE_MS = 2_000;

export interface BackendDeps {
  proxy: CompiledProxy;
  /** Called once, when a stub gives its first answer. */
  onStubUsed?: (() => void) | undefined;
  /** @default reads the file system */
  readFile?: ReadTextFile | undefined;
  /** @default the real clock */
  timing?: RetryTiming | undefined;
  /** Told when an answer, or another try, is waited for. @default nobody is */
  waiting?: Waiting | undefined;
}

/** Opens one backend. Its libraries are loaded here and not before: a guest that never chats does not pay for them. */
export async function openBackend(compiled: CompiledBackend, deps: BackendDeps): Promise<ChatBackend> {
  switch (compiled.kind) {
    case 'openai': {
      if (compiled.problem !== undefined) throw new BackendFailures(compiled.name).misconfigured(compiled.problem);
      const { OpenAiBackend } = await import('./openai.ts');
      return new OpenAiBackend(compiled, { proxy: deps.proxy, timing: deps.timing, waiting: deps.waiting });
    }
    case 'scripted': {
      const { openScriptedBackend } = await import('./scripted.ts');
      return openScriptedBackend(compiled.name, compiled.script, deps.readFile ?? readTextFile, deps.waiting);
    }
    case 'stub': {
      const { StubBackend } = await import('./stub.ts');
      return new StubBackend({ name: compiled.name, onFirstUse: deps.onStubUsed });
    }
  }
}

/** The backends of a process. Each is opened when it is first asked for, and once. */
export class BackendSet {
  readonly #config: Pick<CompiledHostConfig, 'backends' | 'defaultBackend' | 'proxy'>;
  readonly #deps: Omit<BackendDeps, 'proxy'>;
  readonly #open = new Map<string, Promise<ChatBackend>>();
  #closing: Promise<void> | undefined;

  constructor(
    config: Pick<CompiledHostConfig, 'backends' | 'defaultBackend' | 'proxy'>,
    deps: Omit<BackendDeps, 'proxy'> = {},
  ) {
    this.#config = config;
    this.#deps = deps;
  }

  /** The named backend, or the default one. */
  async get(name: string = this.#config.defaultBackend): Promise<ChatBackend> {
    if (this.#closing !== undefined) throw new BackendFailures(name).closed();
    const compiled = this.#config.backends.get(name);
    if (compiled === undefined) throw unknownBackend(name, [...this.#config.backends.keys()]);
    let opening = this.#open.get(name);
    if (opening === undefined) {
      opening = openBackend(compiled, { ...this.#deps, proxy: this.#config.proxy });
      this.#open.set(name, opening);
      // A script that was wrong may be corrected while the process lives.
      opening.catch(() => this.#open.delete(name));
    }
    return opening;
  }

  /** Closes all of them; resolves at the latest when the deadline has passed. */
  close(deadlineMs: number = CLOSE_DEADLINE_MS): Promise<void> {
    this.#closing ??= this.#closeAll(deadlineMs);
    return this.#closing;
  }

  async #closeAll(deadlineMs: number): Promise<void> {
    const closing = Promise.allSettled([...this.#open.values()].map(async (opening) => (await opening).close()));
    const { promise: deadline, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, deadlineMs);
    await Promise.race([closing, deadline]);
    clearTimeout(timer);
  }
}

/** For a session that names a backend which is not there. */
export function unknownBackend(name: string, valid: readonly string[]): BackendError {
  const hint = didYouMean(name, valid);
  const shown = JSON.stringify(cutText(name, SHOWN_NAME_CHARS));
  return new BackendError(
    'unknown_backend',
    `there is no backend ${shown}${hint === undefined ? '' : `, ${hint}`} (configured: ${valid.join(', ')})`,
    { retryable: false },
  );
}
