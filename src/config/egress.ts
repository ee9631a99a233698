/** Where HTTP servers of MCP may be, as the config file says it. */
export interface CompiledEgress {
  /** Patterns of host names. Null: the file does not say, so every host. */
  readonly allowHosts: readonly string[] | null;
  /** Addresses that are not public. Null: the file does not say, and where a record comes from decides. */
  readonly allowAddresses: readonly string[] | null;
}

/** Words for the blocks that are listed most. Link-local has none on purpose: clouds hand out credentials there. */
export const addressWords: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.0/8', '::1/128'],
  private: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

export function compileEgress(
  table: { allow_hosts?: string[] | undefined; allow_addresses?: string[] | undefined } | undefined,
): CompiledEgress {
  return Object.freeze({
    allowHosts: table?.allow_hosts ?? null,
    allowAddresses: table?.allow_addresses ?? null,
  });
}
