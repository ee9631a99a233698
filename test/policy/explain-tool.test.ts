import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decideServer } from '../../src/policy/effective-set.ts';
import { explainCall, explainServer, explainTool, firstDenial } from '../../src/policy/explain-tool.ts';
import { decideTool } from '../../src/policy/tool-filter.ts';
import { sampleRecord } from '../protocol/record-samples.ts';
import { anyRegistry, anySession, anyTask, anyTool, registryWith, sessionWith, taskWith } from './policy-samples.ts';

const anyServer = fc.constantFrom('a', 'b', 'c', 'd', 'stranger');
const maybeRegistry = fc.option(anyRegistry, { nil: null });
const maybeSession = fc.option(anySession, { nil: null });

describe('an explanation', () => {
  it('of a server ends where the decision about it does, for the same reason [explain.agrees]', () => {
    fc.assert(
      fc.property(anyServer, maybeRegistry, anyTask, maybeSession, (server, registry, task, session) => {
        const decision = decideServer(server, registry, task, session);
        const denial = firstDenial(explainServer(server, registry, task, session));
        expect(denial?.reason ?? null).toBe(decision.allowed ? null : decision.reason);
        expect(denial?.layer ?? null).toBe(decision.allowed ? null : decision.layer);
      }),
    );
  });

  it('of a tool ends where the decision about it does, for the same reason [explain.agrees]', () => {
    fc.assert(
      fc.property(anyTool, anyRegistry, anyTask, maybeSession, (tool, registry, task, session) => {
        for (const record of registry.servers.values()) {
          const decision = decideTool(tool, record, task, session);
          const denial = firstDenial(explainTool(tool, record, task, session));
          expect(denial?.reason ?? null).toBe(decision.allowed ? null : decision.reason);
        }
      }),
    );
  });

  it('names the pattern that lets a tool in, and the one that keeps it out [explain.patterns]', () => {
    const record = sampleRecord('fs', { allowed_tools: ['list_*', 'read_*'] });
    const task = taskWith({ toolDenylist: ['*_media', 'read_secret*'], toolAllowlist: ['read_*'] });
    const session = sessionWith({ toolAllowlist: ['*file*'], toolDenylist: [] });
    const lines = (tool: string) =>
      explainTool(tool, record, task, session).map(({ layer, rule, verdict, matched }) => [
        layer,
        rule,
        verdict,
        matched,
      ]);
    expect(lines('read_file')).toEqual([
      ['registry', 'allowed_tools', 'allows', 'read_*'],
      ['task', 'mcp.tool_denylist', 'silent', null],
      ['task', 'mcp.tool_allowlist', 'allows', 'read_*'],
      ['session', 'mcp.tool_denylist', 'silent', null],
      ['session', 'mcp.tool_allowlist', 'allows', '*file*'],
    ]);
    expect(lines('read_secret_file')[1]).toEqual(['task', 'mcp.tool_denylist', 'denies', 'read_secret*']);
    expect(lines('write_file')[0]).toEqual(['registry', 'allowed_tools', 'denies', null]);
    expect(lines('read_dir')[4]).toEqual(['session', 'mcp.tool_allowlist', 'denies', null]);
  });

  it('goes through all layers, not only to the first that denies [explain.layers]', () => {
    const task = taskWith({ enabled: false, defaultServerIds: ['other'], toolDenylist: ['*'] });
    const answers = explainCall('fs', 'read', registryWith({ fs: [] }), task, sessionWith({ enabled: false }, task));
    expect(answers.filter(({ verdict }) => verdict === 'denies').map(({ reason }) => reason)).toEqual([
      'disabled',
      'not_allowed',
      'disabled',
      'deny_all',
      'denied_by_task',
    ]);
    for (const { verdict, fix } of answers) expect(fix !== null).toBe(verdict === 'denies');
  });

  it('says which name may have been meant [explain.patterns]', () => {
    const [, , , answer] = explainServer(
      'filesytem',
      registryWith({ filesystem: ['*'], git: ['*'] }),
      taskWith({ defaultServerIds: ['filesytem'] }),
      sessionWith(),
    );
    expect(answer?.detail).toBe(
      '"filesytem" is not in the registry; it has "filesystem", "git"; did you mean "filesystem"?',
    );
  });
});
