import type { z } from 'zod';
import { parseBlock } from '../base/ip-block.ts';
import type { SchemaKit } from './document.ts';

/** Hosts and addresses that MCP servers over HTTP may have, per `[egress]`. */
export interface CompiledEgress {
  /** Patterns of host names. Null: not configured, every host is allowed. */
  readonly allowHosts: readonly string[] | null;
  /** Non-public addresses. Null: not configured, the origin of the server's record decides. */
  readonly allowAddresses: readonly string[] | null;
}

/** Names of common address blocks. Link-local has no name on purpose: clouds serve credentials at such addresses. */
export const addressWords: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.0/8', '::1/128'],
  private: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

const HOST_PATTERN = /^[A-Za-z0-9*?._:-]+$/;

/** `[egress]` of a node, and of a registry that tests servers. */
export const egressTable = ({ z, strictTable }: SchemaKit) =>
  strictTable({
    allow_hosts: z
      .array(z.string().regex(HOST_PATTERN, 'must be a host name or pattern, such as "*.example.com", without a port'))
      .optional(),
    allow_addresses: z
      .array(
        z
          .string()
          .refine(
            (text) => Object.hasOwn(addressWords, text) || parseBlock(text) !== null,
            `must be an IP address, a CIDR block such as "10.1.0.0/16", or one of ${Object.keys(addressWords).join(', ')}`,
          ),
      )
      .optional(),
  });

export function compileEgress(table: z.infer<ReturnType<typeof egressTable>> | undefined): CompiledEgress {
  return Object.freeze({
    allowHosts: table?.allow_hosts ?? null,
    allowAddresses: table?.allow_addresses ?? null,
  });
}
