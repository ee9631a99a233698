import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { builtCommand } from '../support/built-command.ts';

const DEMO_MS = 300_000;
const script = fileURLToPath(new URL('../../scripts/demo-friday.ts', import.meta.url));

it(
  'a run that waits from Friday to Monday is paid once, by a node that was started again [demo.friday]',
  async () => {
    builtCommand('spearlet');
    const demo = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    demo.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    const [code] = await once(demo, 'exit');
    expect(code, said).toBe(0);
    expect(said).toContain('The run is parked');
    expect(said).toContain('the ledger has 0 lines');
    expect(said).toContain('granted by ann: checked');
    expect(said).toContain('The ledger has 1 line');
    expect(said).toContain('The run used 1 of ');
    expect(said).not.toMatch(/attempt"?:? ?2/);
    expect(said).not.toContain('bootstrap-node');
    expect(said).toContain('ACME is under review');
    expect(said).toContain('1 run: 0 unchanged, 1 differ');
  },
  DEMO_MS,
);
