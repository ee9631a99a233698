import { expect, it } from 'vitest';
import { Injection } from '../../../src/agent/mcp/injection.ts';
import { encodedName, NameClaims } from '../../../src/agent/mcp/tool-names.ts';
import { deny, exclusion } from '../../../src/agent/policy/decision.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { sessionWith } from '../policy/policy-samples.ts';

it('a name of the model stands for a tool, for a refusal and its reason, or for nothing [mcp.refusal]', () => {
  const record = sampleRecord('fs', { tool_prefix: 'files', tool_namespace: 'little' });
  const told = { title: null, description: '', inputSchema: {}, outputSchema: null, annotations: null };
  const why = exclusion('fs', 'write', deny('denied_by_task', 'task', 'no'));
  const injection = new Injection(sessionWith(), new NameClaims([record]));
  injection.add(
    { record, tools: [{ name: 'read', ...told }], exclusions: [why], instructions: null, failure: null, durationMs: 0 },
    new Set(),
  );
  for (const name of [encodedName('fs', 'read'), 'mcp.fs.read', 'little.read']) {
    expect(injection.find(name)).toMatchObject({ kind: 'tool', record, tool: 'read', name: encodedName('fs', 'read') });
  }
  for (const name of [encodedName('fs', 'write'), 'mcp.fs.write', 'little.write', 'files_write']) {
    expect(injection.find(name)).toEqual({ kind: 'refused', why });
  }
  // The other naming's name of a tool that was injected, and names of no tool that is known.
  for (const name of ['files_read', 'mcp.fs.nothing', 'mcp__YQ__Yg']) {
    expect(injection.find(name)).toEqual({ kind: 'refused', why: null });
  }
  for (const name of ['read', 'fs', 'sum', '']) expect(injection.find(name)).toBeNull();
});
