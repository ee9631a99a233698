import type { RunFlags } from './flags.ts';

/** A registry was named for a task that does not have MCP on. */
export function sayNoEffect({ mcpDir, sms }: Pick<RunFlags, 'mcpDir' | 'sms'>, say: (text: string) => void): void {
  const flag = mcpDir !== undefined ? '--mcp-dir' : sms !== undefined ? '--sms' : undefined;
  if (flag) say(`${flag} has no effect: the task config does not turn MCP on (mcp.enabled)`);
}
