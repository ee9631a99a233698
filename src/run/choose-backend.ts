import type { ChatBackend } from '../agent/chat/backend.ts';
import { openBackend, unknownBackend } from '../agent/chat/backends/open-backend.ts';
import { ConfigError } from '../config/config-error.ts';
import type { CompiledHostConfig } from '../config/host/host-config.ts';
import { NO_PROXY } from '../config/host/proxy.ts';

/** The backend that a session named, or the default one for `undefined`. */
export type FindBackend = (name: string | undefined) => Promise<ChatBackend>;

/** One backend, or a function that returns the backend for the name that a session gives. */
export type BackendOption = ChatBackend | ((name: string | undefined) => ChatBackend | Promise<ChatBackend>);

/** @throws ConfigError if `given` is not a backend */
export function compileBackendOption(given: BackendOption | undefined, onStubUsed: () => void): FindBackend {
  if (given === undefined) {
    const stub = { kind: 'stub', name: 'stub' } as const;
    let opened: Promise<ChatBackend> | undefined;
    return only(stub.name, () => {
      opened ??= openBackend(stub, { proxy: NO_PROXY, onStubUsed });
      return opened;
    });
  }
  if (typeof given === 'function') return async (name) => given(name);
  if (typeof given !== 'object' || given === null || typeof given.complete !== 'function') {
    throw new ConfigError(
      'backend: expected a backend such as openAiBackend() returns, or a function that returns one',
    );
  }
  return only(given.name, async () => given);
}

/** A session may name this backend only. */
function only(known: string, open: () => Promise<ChatBackend>): FindBackend {
  return async (name = known) => {
    if (name !== known) throw unknownBackend(name, [known]);
    return open();
  };
}

/**
 * The host's config with another default backend.
 * @throws ConfigError if the backend is not configured; `from` is the option that named it
 */
export function withDefaultBackend(
  host: CompiledHostConfig,
  asked: { readonly name: string; readonly from: string } | null,
): CompiledHostConfig {
  if (asked === null) return host;
  if (host.backends.has(asked.name)) return { ...host, defaultBackend: asked.name };
  const known = [...host.backends.keys()].join(', ');
  throw new ConfigError(`${asked.from}: unknown backend "${asked.name}" (configured: ${known})`);
}
