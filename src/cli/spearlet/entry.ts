import { crashWithoutSecrets, runProgram } from '../run-program.ts';
import { outputOf } from '../say.ts';
import { spearletProgram } from './table.ts';

crashWithoutSecrets('spearlet', 1);
// When it returns, everything is closed and all output is written; only idle timers of libraries are left.
runProgram(spearletProgram, process.argv.slice(2), outputOf('spearlet')).then((code) => process.exit(code));
