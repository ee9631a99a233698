import { cchatCalls } from './cchat.ts';
import { epollCalls } from './epoll.ts';
import { fdCalls } from './fd.ts';
import { mcpCalls } from './mcp.ts';
import { audioCalls, streamCalls } from './stream.ts';
import { systemCalls } from './system.ts';
import type { HostcallTable } from './table.ts';

export const hostcalls: HostcallTable = {
  ...systemCalls,
  ...cchatCalls,
  ...mcpCalls,
  ...epollCalls,
  ...fdCalls,
  ...streamCalls,
  ...audioCalls,
};
