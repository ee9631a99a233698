import type { JsonObject } from '../../../base/json.ts';
import type { Waiting } from '../../../base/listeners.ts';
import { cutText } from '../../../base/text.ts';
import { didYouMean } from '../../../base/validation.ts';
import { type ReadTextFile, readTextFile } from '../../../config/config-file.ts';
import type { CompiledBackend, CompiledHostConfig, CompiledProxy } from '../../../config/host/host-config.ts';
import { compileOpenAiOptions, type OpenAiOptions } from '../../../config/host/openai-options.ts';
import { compileProxy } from '../../../config/host/proxy.ts';
import { type OptionKeys, refuseUnknownKeys } from '../../../config/option-keys.ts';
import { processEnvironment } from '../../../config/process-environment.ts';
import { BackendError, type ChatBackend, type ChatRequest, messageText } from '../backend.ts';
import { BackendFailures, type RetryTiming } from './failures.ts';
import type { Script, ScriptTurn } from './script-schema.ts';

const SHOWN_NAME_CHARS = 64;

/** Deadline for closing backends. */
const CLOSE_DEADLINE_MS = 2_000;

export interface BackendDeps {
  proxy: CompiledProxy;
  /** Called once, before the first answer of a stub. */
  onStubUsed?: (() => void) | undefined;
  /** @default reads the file system */
  readFile?: ReadTextFile | undefined;
  /** @default the real clock */
  timing?: RetryTiming | undefined;
  /** Notified when a backend waits for a response or a retry. @default none */
  waiting?: Waiting | undefined;
}

/** Opens one backend. Loads its libraries on demand, so that guests without chat start faster. */
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
      return new StubBackend({ name: compiled.name, onFirstUse: deps.onStubUsed });
    }
  }
}

/** Backends of a process, each opened once, on first use. */
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
      // Allow a retry: the user may fix a script while the process runs.
      opening.catch(() => this.#open.delete(name));
    }
    return opening;
  }

  /** Closes all backends; resolves at the deadline at the latest. */
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

/** Error of a session that names an unknown backend. */
export function unknownBackend(name: string, valid: readonly string[]): BackendError {
  const hint = didYouMean(name, valid);
  const shown = JSON.stringify(cutText(name, SHOWN_NAME_CHARS));
  return new BackendError(
    'unknown_backend',
    `there is no backend ${shown}${hint === undefined ? '' : `, ${hint}`} (configured: ${valid.join(', ')})`,
    { retryable: false },
  );
}

/*
 * Backends that a program opens for `runGuest({ backend })`, with the same checks as backends of the host's config. Their
 * libraries are loaded on demand.
 */

/** Backend that the program closes, directly or with `await using`. */
export type OpenedBackend = ChatBackend & AsyncDisposable;

/**
 * Backend for an OpenAI-compatible API. Uses the proxies of HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
 * @throws ConfigError naming the option that cannot be used
 */
export async function openAiBackend(options: OpenAiOptions): Promise<OpenedBackend> {
  const compiled = compileOpenAiOptions(options);
  return disposable(await openBackend(compiled, { proxy: compileProxy(processEnvironment), waiting: options.waiting }));
}

/** Script: its turns, or a file with them. */
export type ScriptOptions = {
  /** Guests see it as `_spear.backend`. @default 'scripted' */
  readonly name?: string | undefined;
  /** Notified when the backend waits. @default none */
  readonly waiting?: Waiting | undefined;
} & ({ readonly file: string } | { readonly turns: readonly ScriptTurn[]; readonly model?: string | undefined });

const scriptOptionKeys: OptionKeys<{ name: 0; waiting: 0; file: 0; turns: 0; model: 0 }> = {
  name: true,
  waiting: true,
  file: true,
  turns: true,
  model: true,
};

/**
 * Backend that plays a script, for demos and tests.
 * @throws BackendError `bad_script`, with the problems of the script
 */
export async function scriptedBackend(options: ScriptOptions): Promise<OpenedBackend> {
  refuseUnknownKeys('scriptedBackend', options, scriptOptionKeys);
  const { name = 'scripted', waiting } = options;
  const { openScriptedBackend, playScript } = await import('./scripted.ts');
  if ('file' in options) return disposable(await openScriptedBackend(name, options.file, readTextFile, waiting));
  const { model, turns } = options;
  const script = { ...(model === undefined ? {} : { model }), turns } as Script;
  return disposable(await playScript(name, 'turns', script, waiting));
}

/** Backend without a model: the same answer to the same request. */
export async function stubBackend({ name = 'stub' }: { readonly name?: string } = {}): Promise<OpenedBackend> {
  return disposable(await openBackend({ kind: 'stub', name }, { proxy: compileProxy({}) }));
}

function disposable(backend: ChatBackend): OpenedBackend {
  return Object.assign(backend, { [Symbol.asyncDispose]: () => backend.close() });
}

const MAX_ECHO_CHARACTERS = 200;

export interface StubOptions {
  name: string;
  /** Called once, before the first answer, to tell users that no model is configured. */
  onFirstUse?: (() => void) | undefined;
}

/** Backend for hosts without a configured model: the same answer to the same request. */
export class StubBackend implements ChatBackend {
  readonly name: string;
  readonly model = 'stub';
  #onFirstUse: (() => void) | undefined;

  constructor(options: StubOptions) {
    this.name = options.name;
    this.#onFirstUse = options.onFirstUse;
  }

  async complete(request: ChatRequest, signal: AbortSignal): Promise<JsonObject> {
    signal.throwIfAborted();
    this.#onFirstUse?.();
    this.#onFirstUse = undefined;
    const lastUserText = messageText(request.messages.findLast((message) => message.role === 'user'));
    const content = `[stub] no model is configured; you said: ${cutText(lastUserText, MAX_ECHO_CHARACTERS)}`;
    return {
      choices: [{ finish_reason: 'stop', index: 0, message: { content, role: 'assistant' } }],
      created: 0,
      id: 'stub',
      model: this.model,
      object: 'chat.completion',
      usage: { completion_tokens: 0, prompt_tokens: 0, total_tokens: 0 },
    };
  }

  async close(): Promise<void> {}
}
