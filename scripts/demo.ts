// The main job, offline: a real guest asks a scripted model about files, the model calls tools of a real MCP server,
// one call is refused by policy, and the audit trail tells what happened.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { AuditLine } from '../src/server/audit/event.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const demo = join(root, 'fixtures', 'demo');
const command = join(root, 'bin', 'spear-run.cjs');
const workspace = mkdtempSync(join(tmpdir(), 'spear-demo-'));
const notes = join(workspace, 'notes');
const records = join(workspace, 'mcp.d');
const audit = join(workspace, 'audit.jsonl');

if (!existsSync(join(root, 'dist', 'spear-run.cjs'))) await import('./build.ts');

try {
  process.exitCode = main();
} finally {
  rmSync(workspace, { recursive: true, force: true });
}

function main(): number {
  cpSync(join(demo, 'notes'), notes, { recursive: true });
  mkdirSync(records);
  writeFileSync(join(records, 'notes.json'), JSON.stringify(notesServer(), null, 2));

  const flags = [
    join(root, 'fixtures', 'c', 'files.wasm'),
    ...['--task-config', join(demo, 'task.json')],
    ...['--script', join(demo, 'model.json')],
    ...['--mcp-dir', records],
    ...['--audit', audit],
  ];
  console.log(`$ npx spear-run ${flags.map(shorten).join(' ')}\n`);
  const { status } = spawnSync(process.execPath, [command, ...flags], { stdio: 'inherit' });
  if (status !== 0) {
    console.error(`\nspear-run ended with ${status}`);
    return status ?? 1;
  }
  console.log(`\n${trail(readFileSync(audit, 'utf8'))}`);
  return 0;
}

/** The official file system server, let into the notes of the demo and nowhere else. */
function notesServer() {
  const entry = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-filesystem/dist/index.js');
  return {
    server_id: 'notes',
    display_name: 'Project notes',
    transport: 'stdio',
    stdio: { command: process.execPath, args: [entry, notes], cwd: notes },
    allowed_tools: ['*'],
  };
}

function shorten(path: string): string {
  const short = path.startsWith(root) ? relative(root, path) : path.replace(workspace, '$TMP');
  return short;
}

function trail(text: string): string {
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as AuditLine);
  const start = Date.parse(lines[0]?.ts ?? '');
  const rows = lines.flatMap((line) => {
    const about = describe(line);
    return about === null ? [] : [`${String(Date.parse(line.ts) - start).padStart(6)} ms  ${about}`];
  });
  return ['The run in the audit log:', ...rows].join('\n');
}

function describe(line: AuditLine): string | null {
  switch (line.event) {
    case 'guest.started':
      return `guest      ${line.module} started, task ${line.task}`;
    case 'guest.ended':
      return `guest      exited with ${line.exit_code} after ${line.duration_ms} ms`;
    case 'session.created':
      return `session    servers: ${line.servers.join(', ')}`;
    case 'mcp.injected': {
      const refused = line.exclusions.map(({ tool_name }) => tool_name).join(', ');
      return `inject     ${line.tools} tools of ${line.server_id}; excluded by the task: ${refused}`;
    }
    case 'tool_call.finished': {
      const outcome =
        line.status === 'ok'
          ? `ok, ${line.output_bytes} bytes in ${line.duration_ms} ms`
          : `${line.status.toUpperCase()}: ${line.reason}`;
      return `tool call  ${`${line.server_id} ${line.tool_name}`.padEnd(24)}${outcome}`;
    }
    case 'budget.hit':
      return `budget     ${line.budget}`;
    default:
      return null;
  }
}
