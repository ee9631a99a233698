import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import type { McpError } from '../errors.ts';

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
