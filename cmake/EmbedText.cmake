# Text files as C++: cmake -DOUTPUT=FILE.cc -DFILES=A.md,B.md -P EmbedText.cmake writes one row {name, text} for each.
string(REPLACE "," ";" files "${FILES}")
set(rows "")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" text)
  string(APPEND rows "{\"${name}\", R\"text(${text})text\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "${rows}")
