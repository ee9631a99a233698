import { describe, expect, it } from 'vitest';
import { InjectionMemory } from '../../../src/agent/mcp/injection-memory.ts';
import { NameClaims } from '../../../src/agent/mcp/name-claims.ts';
import type { ServerTools } from '../../../src/agent/mcp/session-tools.ts';
import { sampleRecord } from '../../server/records/record-samples.ts';
import { sessionWith } from '../policy/policy-samples.ts';

const tool = (name: string) => ({
  name,
  title: null,
  description: name,
  inputSchema: { type: 'object' },
  outputSchema: null,
  annotations: null,
});

function listing(id: string, ...names: string[]): ServerTools {
  return {
    record: sampleRecord(id),
    tools: names.map(tool),
    exclusions: [],
    instructions: null,
    failure: null,
    durationMs: 1,
  };
}

const nothing = new Set<string>();
const claims = new NameClaims([]);

describe('what was injected before', () => {
  it('is given again while nothing changed, and nothing is made anew', () => {
    const memory = new InjectionMemory();
    const lists = [listing('fs', 'read', 'write'), listing('web', 'get')];
    const first = memory.find(sessionWith(), lists, new Set(['own']), claims);
    const again = lists.map((list) => ({ ...list, durationMs: 2 }));
    const second = memory.find(sessionWith(), again, new Set(['own']), claims);
    expect(second.injection).toBe(first.injection);
    expect(second.injection.shown.definitions).toBe(first.injection.shown.definitions);
    expect(second.injection.shown.definitions).toHaveLength(3);
  });

  it.each([
    ['the way of naming', sessionWith({ toolNaming: 'readable' }), undefined, nothing],
    ['the inventory', sessionWith({ inventory: true }), undefined, nothing],
    ['a list of tools', sessionWith(), [listing('fs', 'read')], nothing],
    ['the number of servers', sessionWith(), [], nothing],
    ['a tool of the guest', sessionWith(), undefined, new Set(['fs_read'])],
  ])('is made anew when %s changed', (_what, policy, changed, guestTools) => {
    const memory = new InjectionMemory();
    const lists = [listing('fs', 'read')];
    const { injection } = memory.find(sessionWith(), lists, nothing, claims);
    expect(memory.find(policy, changed ?? lists, guestTools, claims).injection).not.toBe(injection);
    expect(memory.find(sessionWith(), lists, nothing, claims).injection).toBe(injection);
  });

  it('is made anew when other servers could be meant by its names', () => {
    const memory = new InjectionMemory();
    const lists = [listing('fs', 'read')];
    const { injection } = memory.find(sessionWith(), lists, nothing, claims);
    expect(memory.find(sessionWith(), lists, nothing, new NameClaims([])).injection).not.toBe(injection);
  });

  it('takes the tools that the guest has later for others than those it had', () => {
    const memory = new InjectionMemory();
    const lists = [listing('fs', 'read')];
    const guestTools = new Set(['one']);
    const { injection } = memory.find(sessionWith(), lists, guestTools, claims);
    guestTools.add('two'); // the set is the session's own and goes on changing
    expect(memory.find(sessionWith(), lists, guestTools, claims).injection).not.toBe(injection);
  });

  it('is kept for a few sessions, not for all that ever were', () => {
    const memory = new InjectionMemory();
    const lists = [listing('fs', 'read')];
    const find = (name: string) => memory.find(sessionWith(), lists, new Set([name]), claims).injection;
    const first = find('session 0');
    expect(find('session 0')).toBe(first);
    for (let session = 1; session <= 8; session++) find(`session ${session}`);
    expect(find('session 0')).not.toBe(first);
  });
});
