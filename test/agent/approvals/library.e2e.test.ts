import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  type ApprovalRequest,
  McpConnectionError,
  McpToolbox,
  openMcp,
  type RunOptions,
  runGuest,
  type ToolboxOptions,
} from '../../../src/index.ts';
import { inEnoughTime } from '../../support/enough-time.ts';
import { fixture, npmServer } from '../mcp/client/pool-records.ts';
import { tempDir } from '../mcp/client/pool-samples.ts';
import { Desk } from './approval-host.ts';

function toolbox(options: Omit<ToolboxOptions, 'servers'>, approval: object | string, folder: string): McpToolbox {
  const transport = { kind: 'stdio', command: process.execPath, args: [npmServer('filesystem'), folder] } as const;
  const box = new McpToolbox({ servers: [{ name: 'fs', transport, approval: approval as 'always' }], ...options });
  onTestFinished(() => box.disconnect());
  return box;
}

describe('a toolbox with servers whose tools need an approval', () => {
  it('asks the program’s function [approval.library]', async () => {
    const folder = tempDir();
    const asked: ApprovalRequest[] = [];
    const box = toolbox(
      {
        approve: (request) => {
          asked.push(request);
          return request.arguments.path === join(folder, 'yes')
            ? 'allow_once'
            : { decision: 'deny', reason: 'not this one' };
        },
      },
      { perTool: { 'write_*': 'always' } },
      folder,
    );
    await box.connect();
    const write = (name: string) => box.tool('fs_write_file').call({ path: join(folder, name), content: 'x' });
    expect(await write('yes')).toMatchObject({ success: true });
    expect(await write('no')).toMatchObject({
      success: false,
      message: 'write_file was not approved: not this one',
      value: { error: { code: 'mcp_approval_denied' } },
    });
    expect(await box.tool('fs_list_directory').call({ path: folder })).toMatchObject({ success: true });
    expect(asked.map(({ server, tool, session }) => [server, tool, session])).toEqual([
      ['fs', 'write_file', 'toolbox'],
      ['fs', 'write_file', 'toolbox'],
    ]);
  });

  it('denies at once without one [approval.library] [approval.no-approver]', async () => {
    const folder = tempDir();
    const box = toolbox({}, 'always', folder);
    await box.connect();
    const result = await box.tool('fs_list_directory').call({ path: folder });
    expect(result).toMatchObject({ success: false, message: expect.stringContaining('no approver is available') });
  });

  it('takes rules and a time to answer in [approval.library]', async () => {
    const folder = tempDir();
    const approvalRules = [{ tools: ['list_*'], verdict: 'allow' }];
    const desk = new Desk();
    const box = toolbox({ approvalRules, approve: desk.decide, approvalTimeoutMs: 50 }, 'policy', folder);
    await box.connect();
    expect(await box.tool('fs_list_directory').call({ path: folder })).toMatchObject({ success: true });
    const late = await box.tool('fs_get_file_info').call({ path: folder });
    expect(late.message).toBe('get_file_info: no approval within 50 ms (approval_timeout_ms)');
    expect(() => toolbox({ approvalRules: [{ verdict: 'perhaps' }] }, 'policy', folder)).toThrow(McpConnectionError);
  });

  it('ends what waits when it is disconnected', async () => {
    const folder = tempDir();
    const desk = new Desk();
    const box = toolbox({ approve: desk.decide }, 'always', folder);
    await box.connect();
    const answer = box.tool('fs_list_directory').call({ path: folder });
    const { signal } = await desk.next();
    await box.disconnect();
    expect(await answer).toMatchObject({ value: { error: { code: 'mcp_cancelled' } } });
    expect(signal.aborted).toBe(true);
  });
});

describe('runGuest with approve', () => {
  const servers = [
    {
      name: 'tiny',
      transport: { kind: 'stdio', command: process.execPath, args: [fixture('tiny.mjs')] },
      approval: 'always',
    },
  ] as const;
  const task = { config: { 'mcp.enabled': 'true', 'mcp.default_server_ids': '["tiny"]' } };

  async function run(options: Partial<RunOptions>) {
    await using mcp = await openMcp({ servers, task, stateDir: tempDir() });
    const said: Uint8Array[] = [];
    const result = await runGuest({
      wasm: fileURLToPath(new URL('../../../fixtures/c/mcp.wasm', import.meta.url)),
      args: ['mcp', 'tiny', 'echo', '{"message":"hi"}', '1'],
      output: (_stream, bytes) => void said.push(bytes),
      mcp,
      ...options,
    });
    return { ...result, stdout: Buffer.concat(said).toString() };
  }

  it('asks the program’s function about a guest’s calls [approval.library]', async () => {
    const desk = new Desk('allow_once');
    expect(await run({ approve: desk.decide })).toMatchObject({
      reason: 'exit',
      exitCode: 0,
      stdout: expect.stringContaining('1 calls, 0 failed'),
    });
    expect(desk.asked).toHaveLength(1);
  });

  it('denies without an answer within limits.approval_timeout_ms, and the guest goes on [approval.timeout]', async () => {
    const answer = await run({ approve: new Desk().decide, limits: { approval_timeout_ms: 50 } });
    expect(answer).toMatchObject({ reason: 'exit', exitCode: 3, stdout: expect.stringContaining('within 50 ms') });
  });

  it('stops the clock of the run while somebody thinks [approval.clocks]', async () => {
    await inEnoughTime(1_500, async (ms) => {
      const approve = async () => {
        await setTimeout(ms);
        return 'allow_once' as const;
      };
      expect(await run({ approve, limits: { timeout_ms: ms } })).toMatchObject({ reason: 'exit', exitCode: 0 });
    });
  });

  it('ends the question with the guest', async () => {
    const desk = new Desk();
    const interrupt = new AbortController();
    const running = run({ approve: desk.decide, signal: interrupt.signal });
    const { signal } = await desk.next();
    interrupt.abort();
    expect(await running).toMatchObject({ reason: 'interrupted' });
    expect(signal.aborted).toBe(true);
  });
});
