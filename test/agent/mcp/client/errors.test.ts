import { describe, expect, it } from 'vitest';
import {
  McpApprovalError,
  McpArgumentsError,
  McpBudgetError,
  McpCancelledError,
  McpConnectionError,
  type McpError,
  McpOutputError,
  McpPolicyError,
  McpSchemaError,
  McpTimeoutError,
  McpToolError,
  toToolError,
} from '../../../../src/agent/mcp/client/errors.ts';

const cases: [McpError, string, boolean][] = [
  [new McpConnectionError('fs', 'lost', 'm'), 'mcp_unavailable', true],
  [new McpConnectionError('fs', 'connect_failed', 'm'), 'mcp_unavailable', true],
  [new McpConnectionError('fs', 'env_missing', 'm'), 'mcp_unavailable', false],
  [new McpConnectionError('fs', 'env_refused', 'm'), 'mcp_unavailable', false],
  [new McpConnectionError('fs', 'record_invalid', 'm'), 'mcp_unavailable', false],
  [new McpConnectionError('fs', 'spawn_failed', 'm'), 'mcp_unavailable', false],
  [new McpConnectionError('fs', 'sandbox_unavailable', 'm'), 'mcp_unavailable', false],
  [new McpConnectionError('fs', 'unauthorized', 'm'), 'mcp_unavailable', false],
  [new McpConnectionError('fs', 'closed', 'm'), 'mcp_unavailable', false],
  [new McpTimeoutError('fs', 100, 'it'), 'mcp_timeout', true],
  [new McpToolError('fs', 'read', 'm'), 'mcp_tool_error', false],
  [new McpToolError('fs', 'read', 'm', -32000), 'mcp_tool_error', false],
  [new McpToolError('fs', 'read', 'm', -32602), 'mcp_invalid_arguments', false],
  [new McpSchemaError('fs', 'read', 'm'), 'mcp_tool_error', false],
  [new McpArgumentsError('fs', 'read', 'm'), 'mcp_invalid_arguments', false],
  [new McpCancelledError('fs', 'm'), 'mcp_cancelled', false],
  [new McpBudgetError('fs', 'm'), 'mcp_budget_exceeded', true],
  [new McpOutputError('fs', 'm'), 'mcp_output_too_large', false],
  [new McpPolicyError('fs', 'm'), 'mcp_policy_denied', false],
  [new McpApprovalError('fs', 'm'), 'mcp_approval_denied', false],
];

describe('the error a model reads', () => {
  it.each(cases)('%s', (error, code, retryable) => {
    expect(toToolError(error)).toEqual({ code, message: error.message, retryable });
  });

  it('says nothing of an error that is not ours', () => {
    const text = JSON.stringify([toToolError(new TypeError('Bearer abc')), toToolError('abc'), toToolError(null)]);
    expect(text).not.toContain('abc');
    expect(toToolError(new Error('x'))).toMatchObject({ code: 'mcp_unavailable', retryable: false });
  });
});
