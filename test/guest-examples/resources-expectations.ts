import { expect } from 'vitest';
import { fixture, root, spearRun } from '../e2e/spear-run.ts';
import { withoutProgress } from './component-progress.ts';

const lines = [
  'everything has 7 resources, 1 templates and 2 prompts for this guest',
  'demo://resource/static/document/features.md: # Everything Server - Features',
  "args-prompt: What's weather in Bern?",
];

/** The example is one program in every language and form, so it says one thing of the real server. */
export async function expectResources(wasm: string): Promise<void> {
  const task = ['--mcp-dir', fixture('mcp.d'), '--task-config', fixture('tasks/resources.json')];
  const { code, stdout, stderr } = await spearRun([wasm, ...task], { cwd: root });
  expect({ code, stderr: withoutProgress(stderr), lines: stdout.trimEnd().split('\n') }).toEqual({
    code: 0,
    stderr: '',
    lines,
  });
}
