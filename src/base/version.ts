import packageJson from '../../package.json' with { type: 'json' };

/** Version of this package, for commands, MCP servers and audit logs. */
export const version: string = packageJson.version;
