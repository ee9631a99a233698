import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import type { McpError } from '../errors.ts';
import type { HttpRefusal } from '../http-refusal.ts';
import type { Challenge } from '../oauth/challenge.ts';

/** Says in words why a connection broke. */
export type LossReport = (why: string) => void;

const INTERNAL_ERROR = -32603;

/**
 * Ends one request of the library as if the server had answered with an error. The error itself travels as `data`: an
 * answer from outside is parsed from JSON and can never hold an object of our classes.
 */
export function failRequest(transport: Transport, requestId: string | number, error: McpError): void {
  const message = {
    jsonrpc: '2.0',
    id: requestId,
    error: { code: INTERNAL_ERROR, message: error.message, data: error },
  };
  transport.onmessage?.(message as JSONRPCMessage);
}

/** A server answered a request of ours with an error. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor({ code, message, data }: { readonly code: number; readonly message: string; readonly data?: unknown }) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** An HTTP server answered with a status that is no success. */
export class StatusError extends Error implements HttpRefusal {
  readonly status: number;
  readonly text: string;
  readonly missingScope: string | null;
  readonly inSession: boolean;
  readonly challenge: Challenge;

  constructor({
    status,
    text,
    inSession,
    challenge,
  }: Pick<StatusError, 'status' | 'text' | 'inSession' | 'challenge'>) {
    super(`HTTP ${status}`);
    this.status = status;
    this.text = text;
    this.inSession = inSession;
    this.challenge = challenge;
    this.missingScope = challenge.isAboutScope ? (challenge.scope ?? 'not named') : null;
  }
}
