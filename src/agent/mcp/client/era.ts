import type { ClientCapabilities, ConnectOptions, VersionNegotiationOptions } from '@modelcontextprotocol/client';
import type { JsonObject } from '../../../base/json.ts';
import type { McpServerRecord } from '../../../server/records/record.ts';
import type { McpLibrary } from './transport/http-target.ts';

/** The version that begins with `server/discover` and has no sessions. Before it is `initialize`. */
export const MODERN_VERSION = '2026-07-28';

/** What a connection found out about its server, for the next one that is made in the same way. */
export interface EraMemory {
  /** Whether it was asked for its era and answered; null: it never was, or nothing came of it. */
  bearsAsking: boolean | null;
}

/** How a server is greeted. */
export type Greeting = 'ask' | 'legacy' | { readonly pin: string };

/** A version that is not known here is taken for the old way; the old SSE transport has no other. */
export function greetingOf({ protocol, transport }: McpServerRecord, memory: EraMemory): Greeting {
  if (transport === 'http_sse_legacy') return 'legacy';
  if (protocol === 'auto') return memory.bearsAsking === false ? 'legacy' : 'ask';
  return protocol === MODERN_VERSION ? { pin: protocol } : 'legacy';
}

export function negotiation(greeting: Greeting, probeTimeoutMs: number): VersionNegotiationOptions {
  const probe = { timeoutMs: probeTimeoutMs };
  if (greeting === 'ask') return { mode: 'auto', probe };
  return greeting === 'legacy' ? { mode: 'legacy' } : { mode: { pin: greeting.pin }, probe };
}

export function priorOf(greeting: Greeting): Pick<ConnectOptions, 'prior'> {
  return greeting === 'legacy' ? { prior: { kind: 'legacy' } } : {};
}

/**
 * Whether a server that was asked may be one of those that cannot be: they end, say nothing, or answer with something
 * that means nothing. One that cannot be reached, or refuses us, is no such server.
 */
export function mayBeLegacy(error: unknown, library: McpLibrary): boolean {
  if (error instanceof library.SdkHttpError) return error.status >= 500;
  if (!(error instanceof library.SdkError)) return false;
  const { SdkErrorCode } = library;
  if (error.code === SdkErrorCode.RequestTimeout) return true;
  if (error.code !== SdkErrorCode.EraNegotiationFailed) return false;
  const { cause } = error;
  return cause === undefined || cause instanceof SyntaxError || cause instanceof library.SdkError;
}

/** What a server without sessions is told with each request, as `_meta`. The library does so with its own. */
export function requestMeta(
  version: string,
  about: {
    readonly client: { readonly name: string; readonly version: string };
    readonly capabilities: ClientCapabilities;
  },
  library: McpLibrary,
): JsonObject {
  return {
    [library.PROTOCOL_VERSION_META_KEY]: version,
    [library.CLIENT_INFO_META_KEY]: { ...about.client },
    [library.CLIENT_CAPABILITIES_META_KEY]: { ...about.capabilities } as JsonObject,
  };
}
