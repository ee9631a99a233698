import { dirname } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { McpToolbox, type ToolboxOptions } from '../../../src/index.ts';
import { fixture, startHttp } from './client/pool-samples.ts';

function toolbox(options: ToolboxOptions): McpToolbox {
  const made = new McpToolbox(options);
  onTestFinished(() => made.disconnect());
  return made;
}

describe('a toolbox', () => {
  it('puts a server into a sandbox where it is told to [sandbox.files]', async () => {
    const script = fixture('confined.mjs');
    const tools = toolbox({
      servers: [
        {
          name: 'box',
          transport: { kind: 'stdio', command: process.execPath, args: [script] },
          sandbox: { network: 'deny', readOnlyPaths: [dirname(script)] },
        },
      ],
    });
    await tools.connect();
    expect(await tools.tool('box_read').call({ path: script })).toMatchObject({ success: true });
    expect(await tools.tool('box_read').call({ path: '/etc/passwd' })).toMatchObject({
      success: false,
      message: 'ENOENT',
    });
  });

  it('connects where it may', async () => {
    const { url } = await startHttp(fixture('http.mjs'), []);
    const servers = [{ name: 'web', transport: { kind: 'streamable_http', url: url('/mcp') } }] as const;
    await expect(toolbox({ servers, egress: { allowAddresses: [] } }).connect()).rejects.toThrow(
      'egress.allow_addresses',
    );
    const own = toolbox({ servers });
    await own.connect();
    expect(await own.tool('web_echo').call({ message: 'hi' })).toMatchObject({ success: true });
  });
});
