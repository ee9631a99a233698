import { fail } from '../abi/errno.ts';
import { closeFd } from './fd.ts';
import type { Family } from './table.ts';

const noSys = () => fail.ENOSYS;

export const mcpCalls: Family<
  | 'mcp_open'
  | 'mcp_list_tools'
  | 'mcp_call_tool'
  | 'mcp_submit'
  | 'mcp_result'
  | 'mcp_close'
  | 'mcp_registry_list'
  | 'mcp_registry_get'
> = {
  mcp_open: noSys,
  mcp_list_tools: noSys,
  mcp_call_tool: noSys,
  mcp_submit: noSys,
  mcp_result: noSys,
  mcp_close: closeFd,
  mcp_registry_list: noSys,
  mcp_registry_get: noSys,
};
