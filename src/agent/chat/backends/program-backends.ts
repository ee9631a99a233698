import type { Waiting } from '../../../base/listeners.ts';
import { readTextFile } from '../../../config/config-file.ts';
import { compileOpenAiOptions, type OpenAiOptions } from '../../../config/host/openai-options.ts';
import { compileProxy } from '../../../config/host/proxy.ts';
import { type OptionKeys, refuseUnknownKeys } from '../../../config/option-keys.ts';
import { processEnvironment } from '../../../config/process-environment.ts';
import type { ChatBackend } from '../backend.ts';
import { openBackend } from './open-backend.ts';
import type { Script, ScriptTurn } from './script-schema.ts';

/*
 * Backends that a program opens itself, for `runGuest({ backend })`. They are those of the host's config, with the same
 * checks; their libraries are loaded when the first is opened.
 */

/** A backend that its program closes, or `await using` does. */
export type OpenedBackend = ChatBackend & AsyncDisposable;

/**
 * A model behind an OpenAI-compatible API. HTTP_PROXY, HTTPS_PROXY and NO_PROXY hold for it.
 * @throws ConfigError naming the option that cannot be used
 */
export async function openAiBackend(options: OpenAiOptions): Promise<OpenedBackend> {
  const compiled = compileOpenAiOptions(options);
  return disposable(await openBackend(compiled, { proxy: compileProxy(processEnvironment), waiting: options.waiting }));
}

/** A script: its turns, or the file that holds them. */
export type ScriptOptions = {
  /** Shown to guests as `_spear.backend`. @default 'scripted' */
  readonly name?: string | undefined;
  /** Told when an answer is waited for. @default nobody is */
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
 * A model that plays a script, for demos and tests.
 * @throws BackendError `bad_script`, with what is wrong with it
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

/** Answers without a model: always the same to the same request. */
export async function stubBackend({ name = 'stub' }: { readonly name?: string } = {}): Promise<OpenedBackend> {
  return disposable(await openBackend({ kind: 'stub', name }, { proxy: compileProxy({}) }));
}

function disposable(backend: ChatBackend): OpenedBackend {
  return Object.assign(backend, { [Symbol.asyncDispose]: () => backend.close() });
}
