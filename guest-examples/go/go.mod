module spear.example/guests

go 1.24
