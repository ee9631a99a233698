import { spearExitCodes } from '../exit-codes.ts';
import { crashWithoutSecrets } from '../run-program.ts';
import { main } from './main.ts';

crashWithoutSecrets('spear', spearExitCodes.failed);
// Everything is closed and all output is written when main returns; what is left are libraries' idle timers.
main(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
